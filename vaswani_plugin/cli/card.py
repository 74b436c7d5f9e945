"""`vaswani card`: completes a bundle with its model card and its weights as safetensors."""

import argparse
import json
import sys
from pathlib import Path

from vaswani_plugin.cli._flags import add_format, add_model

HELP = "write a bundle's model card (README.md), model.safetensors and config.json"
EXAMPLE = "vaswani card --model work/quickstart/model --result work/quickstart/result.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add_model(parser)
    what = "the recipe's result.json; the card shows its data, updates, scores and versions "
    what += "(default: the result.json beside DIR, if it names DIR)"
    parser.add_argument("--result", type=Path, metavar="FILE", help=what)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Write the files; returns 0.

    Raises:
        ValueError: no bundle, a model or a result that can't be used.
        OSError: a file can't be read or written.
    """
    from vaswani_plugin.inference.checkpoints import load_checkpoint, save_safetensors
    from vaswani_plugin.inference.model_card import find_result, write_card
    from vaswani_plugin.text.settings import CARD, CONFIG, MODEL, SAFETENSORS, read_settings

    read_settings(args.model)  # raises if the folder is not a bundle
    written = []
    if (args.model / MODEL).is_file():
        save_safetensors(load_checkpoint(args.model / MODEL), args.model / SAFETENSORS)
        written += [SAFETENSORS, CONFIG]
    if write_card(args.model, args.result or find_result(args.model)):
        written.append(CARD)
    else:
        print(f"{args.model / CARD} was edited by hand and stays as it is", file=sys.stderr)
    if args.format == "json":
        print(json.dumps({"model": str(args.model), "written": written}))
    else:
        print(f"{args.model}: wrote {', '.join(written) or 'nothing'}")
    return 0
