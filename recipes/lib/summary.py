"""Prints the last line of a recipe, for people, from its result.json.

summary.py work/multi30k/result.json --title "multi30k en-de"
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "data-prep"))

from vaswani_text.corpus_io import run  # noqa: E402


def duration(seconds: float) -> str:
    """A time span as people say it."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{round(seconds)} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def summary(result: dict[str, Any], title: str) -> str:
    """One line: the scores, then what they cost."""
    bleu = result["bleu"]
    scores = []
    if bleu["tokenized"] is not None:
        scores.append(f"{bleu['tokenized']:.2f} tokenized BLEU")
    if bleu["compound_split"] is not None:
        scores.append(f"{bleu['compound_split']:.2f} compound-split BLEU")
    if bleu["sacrebleu"] is not None:
        scores.append(f"{bleu['sacrebleu']:.2f} sacreBLEU")
    cost = [
        result["arch"],
        f"{result['parameters']:,} parameters",
        f"{result['updates']:,} updates",
        duration(result["wall_seconds"]),
    ]
    if result["tokens_per_second"]:
        cost.append(f"{result['tokens_per_second']:,} target tokens/s")
    return f"{title}: {', '.join(scores)} ({', '.join(cost)})"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("result", type=Path)
    parser.add_argument("--title", required=True)
    args = parser.parse_args()
    result = json.loads(args.result.read_text(encoding="utf-8"))
    print(f"{summary(result, args.title)}: {args.result}")


if __name__ == "__main__":
    run(main)
