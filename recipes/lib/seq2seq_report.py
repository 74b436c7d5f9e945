"""Puts the scores of recipes/seq2seq.sh beside those of Sutskever et al. (2014), as a table.

seq2seq_report.py --work work/seq2seq --title "multi30k en-de" --output work/seq2seq/seq2seq.md
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tabulate import tabulate

from vaswani_plugin.metrics.published import SEQ2SEQ
from vaswani_plugin.text.corpus_io import read_json, run, write_atomically

AGAIN = "run the recipe again"
TRANSLATED = {
    "forwards": "one LSTM, source forwards, beam 12",
    "reversed": "one LSTM, source reversed, beam 12",
    "ensemble": "five LSTMs, reversed, beam 12",
}
"""Rows of the published table by the name of the recipe's system that translates."""
RESCORED = {
    "baseline": "baseline, phrase-based",
    "baseline + forwards": "baseline's lists rescored by one LSTM, forwards",
    "baseline + reversed": "baseline's lists rescored by one LSTM, reversed",
    "baseline + ensemble": "baseline's lists rescored by five LSTMs, reversed",
    "oracle": "best of each list (oracle)",
}
"""The same by the name of a row of `vaswani rescore`."""
ONLY_HERE = {"baseline + words": "baseline with its length tuned"}
"""Rows of `vaswani rescore` that were not published."""


def rescored_scores(path: Path) -> dict[str, float]:
    """BLEU of the test set by the row of the table, from the output of `vaswani rescore`."""
    titles = RESCORED | ONLY_HERE
    rows: list[dict[str, Any]] = read_json(path, AGAIN)["rows"]
    return {titles[row["system"]]: row["test_bleu"] for row in rows}


def make_rows(work: Path) -> list[tuple[str, float | None, float | None, float | None]]:
    """The rows: system, published BLEU, BLEU here (even average), BLEU here with tuned weights."""
    even = rescored_scores(work / "rescored" / "average.json")
    tuned = rescored_scores(work / "rescored" / "tuned.json")
    for name, title in TRANSLATED.items():
        path = work / "output" / f"{name}.json"
        if path.is_file():  # no ensemble of a single seed
            even[title] = read_json(path, AGAIN)["tokenized"]
    published = dict(SEQ2SEQ)
    titles = [*published, *ONLY_HERE.values()]
    same = {RESCORED["baseline"], RESCORED["oracle"]}  # in which nothing is weighted
    shown: Callable[[str], float | None] = lambda title: None if title in same else tuned.get(title)  # noqa: E731
    return [(title, published.get(title), even.get(title), shown(title)) for title in titles]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--title", required=True, help="of the corpus")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    headers = ["tokenized BLEU", "published, EN-FR", args.title, "weights tuned"]
    table = tabulate(make_rows(args.work), headers, "github", floatfmt=".2f", missingval="")
    with write_atomically(args.output) as write:
        write(table)


if __name__ == "__main__":
    run(main)
