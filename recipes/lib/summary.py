"""Prints the last line of a recipe, for people, from its result.json.

summary.py work/multi30k/result.json --title "multi30k en-de"
"""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from vaswani_plugin.text.corpus_io import InputError, read_json, run  # noqa: E402

ROUGE = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}


def duration(seconds: float) -> str:
    """A time span as people say it."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{round(seconds)} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def bleu_scores(bleu: dict[str, Any]) -> list[str]:
    """What translations are measured by."""
    scores = []
    if bleu["tokenized"] is not None:
        scores.append(f"{bleu['tokenized']:.2f} tokenized BLEU")
    if bleu["compound_split"] is not None:
        scores.append(f"{bleu['compound_split']:.2f} compound-split BLEU")
    if bleu["sacrebleu"] is not None:
        scores.append(f"{bleu['sacrebleu']:.2f} sacreBLEU")
    return scores


def perplexity_scores(report: dict[str, Any]) -> list[str]:
    """What language models are measured by."""
    (row,) = (row for row in report["results"] if row["name"] == "model")
    return [
        f"perplexity {row['perplexity_per_word']:.2f} a word",
        f"{row['bits_per_character']:.3f} bits a character",
    ]


def rouge_scores(report: dict[str, Any]) -> list[str]:
    """What summaries are measured by."""
    (row,) = (row for row in report["systems"] if row["name"] == "model")
    return [f"{row[key]:.2f} {title}" for key, title in ROUGE.items()]


def bracketing_scores(report: dict[str, Any]) -> list[str]:
    """What parsers are measured by."""
    f1 = report["all"]["bracketing_fmeasure"]
    return [
        "no bracket right" if f1 is None else f"{f1:.2f} F1",
        f"{report['malformed_percent']:.1f}% malformed without the constraint",
    ]


SCORES = {
    "bleu": bleu_scores,
    "ppl": perplexity_scores,
    "rouge": rouge_scores,
    "f1": bracketing_scores,
}


def summary(result: dict[str, Any], title: str) -> str:
    """One line: the scores, then what they cost."""
    scores = [text for key, read in SCORES.items() if key in result for text in read(result[key])]
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
    result = read_json(args.result, "run the recipe's last stage again")
    try:
        line = summary(result, args.title)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{args.result}: no result.json of a recipe: {error!r}") from error
    print(f"{line}: {args.result}")


if __name__ == "__main__":
    run(main)
