"""`vaswani archs`: every named architecture, what it changes and its parameter count."""

import argparse
import json
from collections.abc import Callable
from typing import Any

from vaswani_plugin.cli._flags import add_format
from vaswani_plugin.cli._start import start_fairseq
from vaswani_plugin.model.architectures import FAMILIES, PAPER_VOCABULARY, Architecture, Family

MOST_ROWS = 1_000_000
"""Of a matrix. A dictionary of that size is built to count the parameters."""
HELP = "list the architectures with their parameter counts"
EXAMPLE = "vaswani archs --vocab 40960 --format json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    what = "rows of an embedding matrix, with fairseq's four special tokens (default: %(default)s, "
    what += "as in the authors' code)"
    parser.add_argument("--vocab", type=int, default=PAPER_VOCABULARY, metavar="ROWS", help=what)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table.

    Raises:
        ValueError: --vocab is too small for the special tokens and one word, or over MOST_ROWS.
    """
    if not 5 <= args.vocab <= MOST_ROWS:
        raise ValueError(
            f"--vocab {args.vocab}: must be at least 5, four special tokens and a word, "
            f"and at most {MOST_ROWS:,}"
        )
    start_fairseq()
    from tabulate import tabulate

    from vaswani_plugin.fairseq_plugin.models._parameters import count_parameters

    described = [
        (family, [describe(family, row, args.vocab, count_parameters) for row in family.rows])
        for family in FAMILIES
    ]
    if args.format == "json":
        print(json.dumps([row for _, rows in described for row in rows], indent=2))
        return 0
    print(f"Matrices of {args.vocab:,} rows. The paper prints its counts in millions.")
    for family, rows in described:
        symbols = f", {family.target_rows} symbols written" if family.target_rows else ""
        print(f"\n{family.title}{symbols}; changes to --arch {family.model}\n")
        print(tabulate([_cells(row) for row in rows], headers="keys", disable_numparse=True))
        remarks = [remark for row in rows for remark in _remarks(row)]
        for remark in [*remarks, family.remark]:
            if remark:
                print(remark)
    return 0


def describe(
    family: Family, row: Architecture, vocabulary: int, count_parameters: Callable[..., int]
) -> dict[str, Any]:
    """One row of the table, under the keys of the JSON output.

    `agrees`: whether the model has as many parameters as the paper prints, at the paper's rows.
    """
    words = vocabulary, family.target_rows or vocabulary
    parameters = count_parameters(family, row, words)
    printed = printed_rows = difference = None
    if row.printed_parameters is not None:
        printed, printed_rows = row.printed_parameters * 1_000_000, row.printed_rows
        same = words == printed_rows
        difference = parameters if same else count_parameters(family, row, printed_rows)
        difference -= printed
    return {
        "arch": row.name,
        "model": family.model,
        "source": row.source,
        "changes": row.changes,
        "rows": words,
        "parameters": parameters,
        "printed_parameters": printed,
        "printed_rows": printed_rows,
        "difference": difference,
        "agrees": None if difference is None else abs(difference) <= 500_000,
        "remark": row.remark,
    }


def _remarks(row: dict) -> list[str]:
    """Sentences below a family's table."""
    remarks = []
    if row["remark"]:
        difference = f"{row['difference'] / 1e6:+.1f}M against the printed count"
        remarks.append(f"{row['arch']}: {difference}. {row['remark']}")
    printed = row["printed_rows"]
    if printed and printed != (PAPER_VOCABULARY, PAPER_VOCABULARY):
        source, target = printed
        remarks.append(f"{row['arch']}: printed for {source:,} source, {target:,} target words.")
    return remarks


def _cells(row: dict) -> dict[str, str]:
    cells = {
        "arch": row["arch"],
        "source": row["source"],
        "changes": ", ".join(f"{key} {value}" for key, value in row["changes"].items()) or "-",
        "parameters": f"{row['parameters']:,}",
    }
    printed = row["printed_parameters"]
    if printed:
        agrees = "yes" if row["agrees"] else "no"
        cells |= {"printed": f"{printed // 1_000_000}M", "agrees": agrees}
    return cells
