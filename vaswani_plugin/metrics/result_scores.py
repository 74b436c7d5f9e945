"""The scores in a recipe's result.json, in words."""

from collections.abc import Mapping
from typing import Any

from vaswani_plugin.metrics.rouge import KINDS

BLEU = {
    "tokenized": "tokenized BLEU",
    "compound_split": "compound-split BLEU",
    "sacrebleu": "sacreBLEU",
}


def scores_of(result: Mapping[str, Any]) -> list[str]:
    """Every score of a result.json, such as "27.30 tokenized BLEU".

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it is no result of a recipe.
    """
    found = []
    if bleu := result.get("bleu"):
        found += [f"{bleu[key]:.2f} {t}" for key, t in BLEU.items() if bleu[key] is not None]
    if ppl := result.get("ppl"):
        (row,) = (row for row in ppl["results"] if row["name"] == "model")
        found.append(f"perplexity {row['perplexity_per_word']:.2f} a word")
        found.append(f"{row['bits_per_character']:.3f} bits a character")
    if rouge := result.get("rouge"):
        (row,) = (row for row in rouge["systems"] if row["name"] == "model")
        found += [f"{row[key]:.2f} {title}" for key, title in KINDS.items() if key in row]
    if parsing := result.get("f1"):
        f1 = parsing["all"]["bracketing_fmeasure"]
        found.append("no bracket right" if f1 is None else f"{f1:.2f} F1")
        found.append(f"{parsing['malformed_percent']:.1f}% malformed without the constraint")
    return found
