"""The scores in a recipe's result.json, in words."""

from collections.abc import Mapping
from typing import Any

from vaswani_plugin.metrics.rouge import KINDS


def bleu_scores(bleu: dict[str, Any]) -> list[str]:
    """The scores of translations."""
    scores = []
    if bleu["tokenized"] is not None:
        scores.append(f"{bleu['tokenized']:.2f} tokenized BLEU")
    if bleu["compound_split"] is not None:
        scores.append(f"{bleu['compound_split']:.2f} compound-split BLEU")
    if bleu["sacrebleu"] is not None:
        scores.append(f"{bleu['sacrebleu']:.2f} sacreBLEU")
    return scores


def perplexity_scores(report: dict[str, Any]) -> list[str]:
    """The scores of language models."""
    (row,) = (row for row in report["results"] if row["name"] == "model")
    return [
        f"perplexity {row['perplexity_per_word']:.2f} a word",
        f"{row['bits_per_character']:.3f} bits a character",
    ]


def rouge_scores(report: dict[str, Any]) -> list[str]:
    """The scores of summaries."""
    (row,) = (row for row in report["systems"] if row["name"] == "model")
    return [f"{row[key]:.2f} {title}" for key, title in KINDS.items() if key in row]


def bracketing_scores(report: dict[str, Any]) -> list[str]:
    """The scores of parsers."""
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


def scores_of(result: Mapping[str, Any]) -> list[str]:
    """Every score of a result.json, such as "27.30 tokenized BLEU".

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it is no result of a recipe.
    """
    return [text for key, read in SCORES.items() if key in result for text in read(result[key])]
