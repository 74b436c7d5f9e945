"""`vaswani import`: a model of fairseq's `transformer` or of Hugging Face's as one of ours."""

import argparse
import json
from pathlib import Path

from vaswani_plugin.cli._start import start_fairseq

HELP = "make a model of fairseq's own transformer or of Hugging Face's MarianMT one of ours"
EXAMPLE = "vaswani import --checkpoint stock.pt --data-bin data-bin --output ours.pt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "--from", dest="origin", choices=["fairseq", "huggingface"], default="fairseq"
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        required=True,
        metavar="FILE|DIR",
        help="fairseq's checkpoint, or a folder of MarianMT",
    )
    parser.add_argument(
        "--data-bin",
        type=Path,
        metavar="DIR",
        help="holds the dictionaries (dict.*.txt) that fairseq's model was trained with",
    )
    parser.add_argument(
        "--source-lang",
        metavar="LANG",
        help="(default: what the checkpoint or the names of DIR's files say)",
    )
    parser.add_argument("--target-lang", metavar="LANG", help="(default: likewise)")
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="FILE|DIR",
        help="a checkpoint from fairseq's, a bundle from Hugging Face's",
    )
    parser.add_argument("--format", choices=["text", "json"], default="text")


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
        from vaswani_plugin.interchange.huggingface_import import import_from_huggingface

        config = import_from_huggingface(args.checkpoint, args.output, *languages)
    else:
        from vaswani_plugin.interchange.stock_import import import_stock

        config = import_stock(args.checkpoint, args.data_bin, args.output, *languages)
    if args.format == "json":
        print(json.dumps({"output": str(args.output), "model": config}))
    else:
        sizes = ", ".join(f"{key} {value}" for key, value in config.items() if value is not None)
        print(f"wrote {args.output}, a vaswani_transformer: {sizes}")
    return 0
