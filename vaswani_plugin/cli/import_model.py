"""`vaswani import`: a checkpoint of fairseq's stock `transformer` as one of ours."""

import argparse
import json
from pathlib import Path

from vaswani_plugin.cli._start import start_fairseq

HELP = "make a checkpoint of fairseq's own transformer one of vaswani_transformer"
EXAMPLE = "vaswani import --checkpoint stock.pt --data-bin data-bin --output ours.pt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="FILE")
    parser.add_argument(
        "--data-bin",
        type=Path,
        required=True,
        metavar="DIR",
        help="holds the dictionaries (dict.*.txt) that the model was trained with",
    )
    parser.add_argument(
        "--source-lang",
        metavar="LANG",
        help="(default: what the checkpoint or the names of DIR's files say)",
    )
    parser.add_argument("--target-lang", metavar="LANG", help="(default: likewise)")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--format", choices=["text", "json"], default="text")


def run(args: argparse.Namespace) -> int:
    """Read, convert and write; returns 0.

    Raises:
        ValueError: the checkpoint can't be used, ours has no such model, or the dictionaries are
            others; names the file.
        OSError: a file can't be read or written.
    """
    start_fairseq()
    from vaswani_plugin.interchange.stock_import import MODEL, import_stock

    languages = args.source_lang, args.target_lang
    config = import_stock(args.checkpoint, args.data_bin, args.output, *languages)
    if args.format == "json":
        print(json.dumps({"output": str(args.output), "model": config}))
    else:
        sizes = ", ".join(f"{key} {value}" for key, value in config.items() if value is not None)
        print(f"wrote {args.output}, a {MODEL}: {sizes}")
    return 0
