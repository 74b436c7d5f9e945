"""ROUGE of several systems on one test set: the JSON object of `vaswani rouge`, and a table."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from vaswani_plugin.metrics.rouge import rouge


def rouge_report(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    over: str,
    stemming: bool,
) -> dict[str, Any]:
    """Score several systems on the same references.

    Args:
        systems: the summaries of each system, by its name.
        references: one or more for each summary.
        over: one of `rouge.OVER`: how several references count.
        stemming: compare the stems of words.
    """
    return {
        "summaries": len(references),
        "references": sum(map(len, references)),
        "over": over,
        "stemming": stemming,
        "systems": [
            {"name": name, "words": fmean(len(line.split()) for line in lines)}
            | rouge(lines, references, over, stemming)
            for name, lines in systems.items()
        ],
    }


def as_text(report: dict[str, Any]) -> str:
    """The report as a table, one row a system."""
    from tabulate import tabulate  # not needed where the report stays JSON

    headers = {"name": "", "words": "words", "rouge1": "ROUGE-1"}
    headers |= {"rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
    table = tabulate(report["systems"], headers=headers, floatfmt=("", ".1f", *[".2f"] * 3))
    which = "the best" if report["over"] == "best" else "the mean"
    stems = "stems" if report["stemming"] else "words as they are"
    return (
        f"{table}\n\nF1 x 100 over {stems}, mean of {report['summaries']:,} summaries; "
        f"{which} of each one's references ({report['references']:,} in all)."
    )
