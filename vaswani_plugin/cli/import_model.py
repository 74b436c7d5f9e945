"""`vaswani import`: a model of fairseq's `transformer` or of Hugging Face's as one of ours."""

import argparse
import json
from pathlib import Path

from vaswani_plugin.cli._flags import add_format
from vaswani_plugin.cli._start import start_fairseq

HELP = "convert fairseq's own transformer or Hugging Face's MarianMT into a model of this project"
EXAMPLE = "vaswani import --checkpoint stock.pt --data-bin data-bin --output ours.pt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    kinds = ["fairseq", "huggingface"]
    origin = "what wrote the model (default: %(default)s)"
    add("--from", dest="origin", choices=kinds, default="fairseq", help=origin)
    checkpoint = "fairseq: the checkpoint file; huggingface: the MarianMT folder"
    add("--checkpoint", type=Path, required=True, metavar="PATH", help=checkpoint)
    data = "fairseq: the folder of the dictionaries (dict.*.txt) that it was trained with"
    add("--data-bin", type=Path, metavar="DIR", help=data)
    for flag, side in (("--source-lang", "source"), ("--target-lang", "target")):
        what = f"{side} language (default: from the checkpoint or the file names)"
        add(flag, metavar="LANG", help=what)
    output = "fairseq: the checkpoint file to write; huggingface: the bundle folder to make"
    add("--output", type=Path, required=True, metavar="PATH", help=output)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Read, convert and write; returns 0.

    Raises:
        ValueError: the checkpoint can't be used, its model has no counterpart here, or the
            dictionaries differ; names the file.
        OSError: a file can't be read or written.
    """
    languages = args.source_lang, args.target_lang
    if (args.data_bin is None) == (args.origin == "fairseq"):
        raise ValueError(
            "--data-bin goes with --from fairseq, which needs it, and with nothing else"
        )
    start_fairseq()
    if args.origin == "huggingface":
        from vaswani_plugin.export.huggingface_import import import_from_huggingface

        config = import_from_huggingface(args.checkpoint, args.output, *languages)
    else:
        from vaswani_plugin.export.stock_fairseq import import_stock

        config = import_stock(args.checkpoint, args.data_bin, args.output, *languages)
    if args.format == "json":
        print(json.dumps({"output": str(args.output), "model": config}))
    else:
        sizes = ", ".join(f"{key} {value}" for key, value in config.items() if value is not None)
        print(f"wrote {args.output}, a vaswani_transformer: {sizes}")
    return 0
