"""`vaswani export`: a model of ours for fairseq and other programs, or as safetensors."""

import argparse
import json
from pathlib import Path

from vaswani_plugin.cli._flags import add_format
from vaswani_plugin.cli._start import start_fairseq

HELP = "convert a model for stock fairseq, CTranslate2, Hugging Face or ONNX, or to safetensors"
EXAMPLE = "vaswani export --to ctranslate2 --model work/quickstart/model --output model-ct2"
ONLY_FOR = {
    "quantization": ("ctranslate2", "onnx"),
    "allow_layer_norm_eps": ("fairseq",),
    "without_tokenizer": ("huggingface",),
}
"""Flag: the values of --to that it goes with."""
TARGETS = ("fairseq", "ctranslate2", "huggingface", "onnx", "safetensors")
QUANTIZATIONS = ("int8", "int8_float32", "bfloat16", "float16")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    to = "the program that will load the model"
    add("--to", choices=TARGETS, required=True, help=to)
    model = "a bundle; with --to fairseq also a checkpoint"
    add("--model", "--checkpoint", type=Path, required=True, metavar="PATH", help=model)
    output = "a checkpoint file for fairseq; otherwise a new folder"
    add("--output", type=Path, required=True, metavar="PATH", help=output)
    quantization = "ctranslate2: the type of the weights; onnx: int8 (default: float32)"
    add("--quantization", choices=QUANTIZATIONS, help=quantization)
    epsilon = "fairseq: export even if the model's LayerNorm epsilon is not fairseq's 1e-5"
    add("--allow-layer-norm-eps", action="store_true", help=epsilon)
    tokenizer = "huggingface: export no tokenizer; needed where none fits the model's text"
    add("--without-tokenizer", action="store_true", help=tokenizer)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Read, convert and write; returns 0.

    Raises:
        ValueError: flags that don't fit, a model that can't be used or that the other program
            can't express.
        OSError: a file can't be read or written.
    """
    for flag, targets in ONLY_FOR.items():
        if args.to not in targets and getattr(args, flag):
            name = "--" + flag.replace("_", "-")
            raise ValueError(f"{name} means nothing with --to {args.to}; leave it out")
    if args.to == "fairseq":
        start_fairseq()
        from vaswani_plugin.export.stock_fairseq import export_to_fairseq

        source = export_to_fairseq(args.model, args.output, args.allow_layer_norm_eps)
    elif args.to == "ctranslate2":
        from vaswani_plugin.export.ctranslate2_export import export_to_ctranslate2

        source = export_to_ctranslate2(args.model, args.output, args.quantization)
    elif args.to == "huggingface":
        from vaswani_plugin.export.huggingface_export import export_to_huggingface

        source = export_to_huggingface(args.model, args.output, not args.without_tokenizer)
    elif args.to == "onnx":
        from vaswani_plugin.export.onnx_export import export_to_onnx

        source = export_to_onnx(args.model, args.output, args.quantization)
    else:
        from vaswani_plugin.export.exported_model import export_to_safetensors

        source = export_to_safetensors(args.model, args.output)
    if args.format == "json":
        print(json.dumps({"output": str(args.output), "to": args.to, "model": str(source)}))
    else:
        print(f"wrote {args.output} for {args.to}, from {source}")
    return 0
