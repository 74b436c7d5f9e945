"""`vaswani archs` lists the architectures, `vaswani user-dir` prints the plugin's folder."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

from vaswani_plugin.cli.command import Format
from vaswani_plugin.errors import UserError
from vaswani_plugin.model.architectures import PAPER_VOCABULARY, Architecture
from vaswani_plugin.model.configuration import flag, head_sizes
from vaswani_plugin.model.families import Family, families


def user_dir() -> None:
    """Print the plugin's folder: what fairseq's commands need as --user-dir.

    Example: fairseq-train DATA_BIN --user-dir "$(vaswani user-dir)" --arch vaswani_base
    """
    print(Path(__file__).parents[1])


def archs(
    name: Annotated[str, "NAME"] | None = None,
    *,
    vocab: Annotated[int, "ROWS"] = PAPER_VOCABULARY,
    format: Format = "text",
) -> None:
    """List the architectures with their parameter counts, or the values and flags of one.

    Example: vaswani archs vaswani_tiny

    Args:
        name: print this architecture's values and their flags.
        vocab: rows of an embedding matrix, with fairseq's four special tokens (default: 40960, as
            in the authors' code).
    """
    if vocab < 5:
        raise UserError(f"--vocab {vocab}: must be at least 5 (4 special ones)")
    chosen = [(family, [r for r in family.rows if name in (None, r.name)]) for family in families()]
    if name and not any(rows for _, rows in chosen):
        raise UserError(f"no architecture {name}: `vaswani archs` lists them")
    described = [(family, [describe(family, r, vocab) for r in rows]) for family, rows in chosen]
    if format == "json":
        every = [row for _, rows in described for row in rows]
        print(json.dumps(every[0] if name else every, indent=2))
        return
    print(f"Matrices of {vocab:,} rows. The paper prints its counts in millions.")
    for family, rows in described:
        if rows:
            _print_family(family, rows, with_values=bool(name))


def describe(family: Family, row: Architecture, vocabulary: int) -> dict[str, Any]:
    """One row of the table, under the keys of the JSON output.

    `agrees`: whether the model has as many parameters as the paper prints, at the paper's rows.
    """
    from vaswani_plugin.model.build import count_parameters  # imports torch

    words = vocabulary, family.target_rows or vocabulary
    parameters = count_parameters(family, row.changes, words)
    printed = printed_rows = difference = None
    if row.printed_parameters is not None:
        printed, printed_rows = row.printed_parameters * 1_000_000, row.printed_rows
        difference = count_parameters(family, row.changes, printed_rows) - printed
    description: dict[str, Any] = {"arch": row.name, "model": family.model, "source": row.source}
    description |= {"changes": row.changes, "values": values_of(family, row), "rows": words}
    description |= {
        "parameters": parameters,
        "printed_parameters": printed,
        "printed_rows": printed_rows,
    }
    agrees = None if difference is None else abs(difference) <= 500_000
    return description | {"difference": difference, "agrees": agrees, "remark": row.remark}


def values_of(family: Family, row: Architecture) -> dict[str, Any]:
    """Every value of a row that is a flag of `fairseq-train`, by its name."""
    values = family.base | row.changes
    if "d_k" in values:
        values["d_k"], values["d_v"] = head_sizes(family.configuration(**row.changes))
    return values


def _print_family(family: Family, rows: list[dict[str, Any]], with_values: bool) -> None:
    from tabulate import tabulate

    symbols = f", {family.target_rows} symbols written" if family.target_rows else ""
    print(f"\n{family.title}{symbols}; changes to --arch {family.model}\n")
    print(tabulate([_cells(row) for row in rows], headers="keys", disable_numparse=True))
    for remark in [*(remark for row in rows for remark in _remarks(row)), family.remark]:
        if remark:
            print(remark)
    if with_values:
        (row,) = rows
        helps = {f.name: f.metadata.get("help") for f in fields(family.configuration)}
        print("\nAs flags of fairseq-train, which change them:\n")
        lines = [(flag(name), value, helps[name]) for name, value in row["values"].items()]
        print(tabulate(lines, disable_numparse=True, maxcolwidths=[None, None, 60]))


def _remarks(row: dict) -> list[str]:
    """Sentences below a family's table."""
    remarks, arch = [], row["arch"]
    if row["remark"]:
        difference = f"{row['difference'] / 1e6:+.1f}M against the printed count"
        remarks.append(f"{arch}: {difference}. {row['remark']}")
    if row["printed_rows"] not in (None, (PAPER_VOCABULARY, PAPER_VOCABULARY)):
        words = "printed for {:,} source, {:,} target words.".format(*row["printed_rows"])
        remarks.append(f"{arch}: {words}")
    return remarks


def _cells(row: dict) -> dict[str, str]:
    changes = ", ".join(f"{key} {value}" for key, value in row["changes"].items()) or "-"
    cells = {"arch": row["arch"], "source": row["source"], "changes": changes}
    cells["parameters"] = f"{row['parameters']:,}"
    if printed := row["printed_parameters"]:
        cells |= {"printed": f"{printed // 1_000_000}M", "agrees": "yes" if row["agrees"] else "no"}
    return cells
