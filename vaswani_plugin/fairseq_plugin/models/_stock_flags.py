"""Flags of fairseq's own Transformer: our models refuse them and name our flag instead."""

import argparse
from typing import Any

OURS = {
    "embed-dim": "--d-model",
    "ffn-embed-dim": "--d-ff",
    "attention-heads": "--heads",
    "learned-pos": "--positions learned",
}
"""Our flags in place of `--encoder-NAME` and `--decoder-NAME`."""

INSTEAD = {
    **{f"--{side}-{name}": ours for side in ("encoder", "decoder") for name, ours in OURS.items()},
    "--share-all-embeddings": "--share-embeddings all",
    "--share-decoder-input-output-embed": "--share-embeddings decoder",
    "--relu-dropout": "--activation-dropout",
}


class _Refusal(argparse.Action):
    """Ends the command with the name of our flag."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: str
    ) -> None:
        parser.error(
            f"{option_string} is of fairseq's transformer; models of this plugin have "
            f"{INSTEAD[option_string]}"
        )


def refuse_stock_flags(parser: argparse.ArgumentParser) -> None:
    """Refuse fairseq's flags and name ours; argparse would say "unrecognized".

    Args:
        parser: the parser, or the argument group that fairseq hands to a model.
    """
    for flag in INSTEAD:
        hidden = {"help": argparse.SUPPRESS, "default": argparse.SUPPRESS, "nargs": "?"}
        parser.add_argument(flag, action=_Refusal, **hidden)
