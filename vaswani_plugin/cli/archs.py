"""`vaswani archs`: every named architecture, what it changes and its parameter count."""

import argparse
import json
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from omegaconf import OmegaConf
from tabulate import tabulate

from vaswani_plugin.architectures import ARCHITECTURES, PAPER_VOCABULARY, Architecture
from vaswani_plugin.configurations import VaswaniTransformerConfig
from vaswani_plugin.models.transformer import VaswaniTransformer

HELP = "list the architectures with their parameter counts"
EXAMPLE = "vaswani archs --vocab 40960 --format json"
POSITION_LIMIT = 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "--vocab",
        type=int,
        default=PAPER_VOCABULARY,
        metavar="ROWS",
        help="rows of the shared matrix, fairseq's four special tokens included "
        "(default: %(default)s, the authors' code)",
    )
    parser.add_argument("--format", choices=["text", "json"], default="text")


def count_parameters(row: Architecture, vocabulary: int) -> int:
    """Parameters of the real model of a row; the shared matrix counts once.

    Args:
        row: an architecture.
        vocabulary: rows of the shared matrix, at least 4.

    Returns:
        The count; no memory is taken for the weights.
    """
    dictionary = Dictionary()
    for number in range(vocabulary - len(dictionary)):
        dictionary.add_symbol(str(number))
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    cfg = OmegaConf.structured(
        VaswaniTransformerConfig(
            **{
                "max_source_positions": POSITION_LIMIT,
                "max_target_positions": POSITION_LIMIT,
                **row.changes,
            }
        )
    )
    with torch.device("meta"):
        model = VaswaniTransformer.build_model(cfg, task)
    return sum(parameter.numel() for parameter in model.parameters())


def describe(row: Architecture, vocabulary: int) -> dict:
    """One row of the table, under the keys of the JSON output."""
    parameters = count_parameters(row, vocabulary)
    printed = row.printed_parameters
    return {
        "arch": row.name,
        "source": row.source,
        "changes": row.changes,
        "parameters": parameters,
        "printed_parameters": printed and printed * 1_000_000,
        "agrees": None if printed is None else round(parameters / 1e6) == printed,
        "remark": row.remark,
    }


def run(args: argparse.Namespace) -> int:
    """Print the table.

    Raises:
        ValueError: when --vocab is too small for the special tokens and one word.
    """
    if args.vocab < 5:
        raise ValueError(f"--vocab {args.vocab} leaves no row beside the four special tokens")
    rows = [describe(row, args.vocab) for row in ARCHITECTURES]
    if args.format == "json":
        print(json.dumps(rows, indent=2))
        return 0
    print(tabulate([_cells(row) for row in rows], headers="keys", disable_numparse=True))
    print(f"\nShared matrix of {args.vocab:,} rows; the paper prints its counts in millions.")
    for row in rows:
        if row["remark"] and args.vocab == PAPER_VOCABULARY:
            difference = (row["parameters"] - row["printed_parameters"]) / 1e6
            print(f"{row['arch']}: {difference:+.1f}M against the printed count. {row['remark']}")
    print("Table 3 (D), label smoothing 0.0 and 0.2: vaswani_base with --label-smoothing.")
    return 0


def _cells(row: dict) -> dict[str, str]:
    agrees = {None: "", True: "yes", False: "no"}[row["agrees"]]
    changes = ", ".join(f"{key} {value}" for key, value in row["changes"].items())
    printed = row["printed_parameters"]
    return {
        "arch": row["arch"],
        "source": row["source"],
        "changes to base": changes or "-",
        "parameters": f"{row['parameters']:,}",
        "printed": f"{printed // 1_000_000}M" if printed else "",
        "agrees": agrees,
    }
