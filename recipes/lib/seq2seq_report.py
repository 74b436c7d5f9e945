"""Puts the scores of recipes/seq2seq.sh beside those of Sutskever et al. (2014), as a table.

seq2seq_report.py --work work/seq2seq --title "multi30k en-de" --seeds 1,2,3,4,5 --beam 12 \\
    --output work/seq2seq/seq2seq.md
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tabulate import tabulate

from vaswani_plugin.errors import run
from vaswani_plugin.metrics.published import SEQ2SEQ
from vaswani_plugin.text.lines import read_json
from vaswani_plugin.text.outputs import write_atomically

AGAIN = "run the recipe again"
WORDS = {2: "two", 5: "five"}
"""Sizes of ensembles as the published tables write them."""
BASELINE, ORACLE = "baseline, phrase-based", "best of each list (oracle)"


def translated_titles(models: int, beam: int) -> dict[str, str]:
    """Rows of the table by the name of the recipe's system that translates.

    Args:
        models: number of LSTMs of the ensemble.
        beam: its width.
    """
    return {
        "forwards": f"one LSTM, source forwards, beam {beam}",
        "reversed": f"one LSTM, source reversed, beam {beam}",
        "ensemble": f"{WORDS.get(models, models)} LSTMs, reversed, beam {beam}",
    }


def rescored_titles(models: int) -> dict[str, str]:
    """The same by the name of a row of `vaswani rescore`."""
    return {
        "baseline": BASELINE,
        "baseline + words": "baseline with its length tuned",
        "baseline + forwards": "baseline's lists rescored by one LSTM, forwards",
        "baseline + reversed": "baseline's lists rescored by one LSTM, reversed",
        "baseline + ensemble": (
            f"baseline's lists rescored by {WORDS.get(models, models)} LSTMs, reversed"
        ),
        "oracle": ORACLE,
    }


def rescored_scores(path: Path, models: int) -> dict[str, float]:
    """BLEU of the test set by the row of the table, from the output of `vaswani rescore`."""
    titles = rescored_titles(models)
    rows: list[dict[str, Any]] = read_json(path, AGAIN)["rows"]
    return {titles[row["system"]]: row["test_bleu"] for row in rows}


def make_rows(
    work: Path, models: int, beam: int, rescored: bool = True
) -> list[tuple[str, float | None, float | None, float | None]]:
    """The rows: system, published BLEU, BLEU here (even average), BLEU here with tuned weights.

    The published rows come first, then those of other sizes or beams. Without `rescored`, no lists
    were rescored.
    """
    even, tuned = {}, {}
    if rescored:
        even = rescored_scores(work / "rescored" / "average.json", models)
        tuned = rescored_scores(work / "rescored" / "tuned.json", models)
    for name, title in translated_titles(models, beam).items():
        path = work / "output" / f"{name}.json"
        if path.is_file():  # no ensemble of a single seed
            even[title] = read_json(path, AGAIN)["tokenized"]
    published = dict(SEQ2SEQ)
    titles = dict.fromkeys([*published, *tuned, *even])
    same = {BASELINE, ORACLE}  # in which nothing is weighted
    shown: Callable[[str], float | None] = lambda title: None if title in same else tuned.get(title)  # noqa: E731
    return [(title, published.get(title), even.get(title), shown(title)) for title in titles]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--title", required=True, help="of the corpus")
    parser.add_argument("--seeds", required=True, help="of the reversed LSTMs, as S,S")
    parser.add_argument("--beam", type=int, required=True)
    parser.add_argument("--rescored", action="store_true", help="lists were rescored")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    headers = ["tokenized BLEU", "published, EN-FR", args.title, "weights tuned"]
    rows = make_rows(args.work, len(args.seeds.split(",")), args.beam, args.rescored)
    table = tabulate(rows, headers, "github", floatfmt=".2f", missingval="")
    with write_atomically(args.output) as write:
        write(table)


if __name__ == "__main__":
    run(main)
