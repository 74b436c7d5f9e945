"""The table of `vaswani archs`: each architecture and the parameters of its real model."""

import argparse
import json
from functools import lru_cache
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import OmegaConf
from tabulate import tabulate

from vaswani_plugin.architectures import FAMILIES, PAPER_VOCABULARY, Architecture, Family
from vaswani_plugin.models._configuration import values_of_the_task


@lru_cache
def _dictionary(rows: int) -> Dictionary:
    dictionary = Dictionary()
    for number in range(rows - len(dictionary)):
        dictionary.add_symbol(str(number))
    return dictionary


def count_parameters(family: Family, row: Architecture, words: tuple[int, int]) -> int:
    """Parameters of the real model of a row; a shared matrix counts once.

    Args:
        family: of the row.
        row: an architecture.
        words: rows of the source's and of the target's matrix, at least 4. Where they are equal the
            two have one dictionary; a language model has the target's alone.

    Returns:
        The count; no memory is taken for the weights.
    """
    target = _dictionary(words[1])
    source = target if words[0] == words[1] else _dictionary(words[0])
    task = SimpleNamespace(
        source_dictionary=source,
        target_dictionary=target,
        ends_word=torch.zeros(len(source), dtype=torch.bool),
        is_word=torch.zeros(len(target), dtype=torch.bool),
    )
    config = MODEL_DATACLASS_REGISTRY[family.model]
    of_task = values_of_the_task(config, TASK_DATACLASS_REGISTRY[family.task])
    cfg = OmegaConf.structured(config(**of_task, **row.changes))
    with torch.device("meta"):
        model = MODEL_REGISTRY[family.model].build_model(cfg, task)
    return sum(parameter.numel() for parameter in model.parameters())


def describe(family: Family, row: Architecture, vocabulary: int) -> dict:
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


def run(args: argparse.Namespace) -> int:
    """Print the table.

    Raises:
        ValueError: when --vocab is too small for the special tokens and one word.
    """
    if args.vocab < 5:
        raise ValueError(f"--vocab {args.vocab} leaves no row beside the four special tokens")
    described = [
        (family, [describe(family, row, args.vocab) for row in family.rows]) for family in FAMILIES
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
