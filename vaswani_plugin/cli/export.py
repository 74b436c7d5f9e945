"""`vaswani export`: a model of ours for stock fairseq, or for CTranslate2."""

import argparse
from pathlib import Path

from vaswani_plugin.cli._start import start_fairseq

HELP = "write a vaswani_transformer for stock fairseq or for CTranslate2"
EXAMPLE = "vaswani export --to ctranslate2 --model work/quickstart/model --output model-ct2"
QUANTIZATIONS = ("int8", "int8_float32", "bfloat16", "float16")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument("--to", choices=["fairseq", "ctranslate2"], required=True)
    parser.add_argument(
        "--model",
        "--checkpoint",
        type=Path,
        required=True,
        metavar="DIR|FILE",
        help="a bundle, or a checkpoint",
    )
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="FILE|DIR",
        help="checkpoint for fairseq; new folder for CTranslate2, a bundle if --model is one",
    )
    parser.add_argument(
        "--data-bin",
        type=Path,
        metavar="DIR",
        help="dictionaries of a checkpoint that is exported to CTranslate2",
    )
    parser.add_argument(
        "--quantization",
        choices=QUANTIZATIONS,
        help="how CTranslate2 stores and multiplies the weights (default: float32)",
    )
    parser.add_argument(
        "--allow-layer-norm-eps",
        action="store_true",
        help="export to fairseq though its LayerNorm has epsilon 1e-5 and the model another one",
    )
    parser.add_argument("--format", choices=["text", "json"], default="text")


def run(args: argparse.Namespace) -> int:
    """Read, convert and write; returns 0.

    Raises:
        ValueError: flags that don't fit, a model that can't be used or that the other program
            can't express.
        OSError: a file can't be read or written.
    """
    for_the_other = (
        {"--data-bin": args.data_bin, "--quantization": args.quantization}
        if args.to == "fairseq"
        else {"--allow-layer-norm-eps": args.allow_layer_norm_eps}
    )
    for flag, value in for_the_other.items():
        if value:
            raise ValueError(f"{flag} means nothing with --to {args.to}; leave it out")
    start_fairseq()
    from vaswani_plugin.cli import _exporting

    return _exporting.run(args)
