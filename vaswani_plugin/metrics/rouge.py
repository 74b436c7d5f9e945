"""ROUGE-1, -2, -L and -Lsum (Lin 2004) by the library rouge-score; a recipe's scores in words.

Words are the library's: English, lowercased, a to z and digits, stemmed as in the original script
with -m. It finds no word in other scripts, which is an error here.

ROUGE-L treats a summary as one sequence of words. ROUGE-Lsum joins the subsequences of each pair of
sentences; published figures of CNN/Daily Mail are its. A lone line is split after full stops.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from vaswani_plugin.errors import UserError, optional
from vaswani_plugin.text.summaries import split_at_stops

KINDS = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L", "rougeLsum": "ROUGE-Lsum"}
"""By the library's name of each kind: that in print."""
_LATIN = re.compile("[a-z0-9]", re.IGNORECASE | re.ASCII)


def rouge(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    over: str = "best",
    stemming: bool = True,
) -> dict[str, float]:
    """F1 of each kind, 0 to 100: the mean over N summaries, each with one or more references.

    `over` says how several references count: "best" takes the highest F1 of each kind separately
    (as SciTLDR's authors do), "mean" the mean over all. `stemming` is Porter's (1980), of English
    words of more than three letters. References mostly in other letters than Latin are an error.
    """
    # Imported here: nltk takes up to two seconds where SciPy and scikit-learn are installed.
    library = optional("rouge_score.rouge_scorer", "rouge-score")
    text = "".join(gold for group in references for gold in group)
    if 2 * len(_LATIN.findall(text)) < sum(map(str.isalnum, text)):
        raise UserError("the references are mostly of other letters than a to z: no words here")
    scorer = library.RougeScorer(list(KINDS), use_stemmer=stemming)
    choose: Callable[[Sequence[float]], float] = max if over == "best" else fmean
    scores = []
    for hypothesis, group in zip(hypotheses, references, strict=True):
        each = [scorer.score(_by_sentences(gold), _by_sentences(hypothesis)) for gold in group]
        scores.append([choose([score[kind].fmeasure for score in each]) for kind in KINDS])
    columns = zip(*scores, strict=True)
    return {kind: 100 * fmean(column) for kind, column in zip(KINDS, columns, strict=True)}


def _by_sentences(summary: str) -> str:
    """A summary with a line break after each sentence."""
    return summary if "\n" in summary else "\n".join(split_at_stops(summary))


def rouge_report(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    over: str,
    stemming: bool,
) -> dict[str, Any]:
    """The JSON object of `vaswani rouge`: the scores of each system by its name."""
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

    headers = {"name": "", "words": "words"} | KINDS
    table = tabulate(report["systems"], headers=headers, floatfmt=("", ".1f", *[".2f"] * 4))
    which = "the best" if report["over"] == "best" else "the mean"
    stems = "stems" if report["stemming"] else "words as they are"
    return (
        f"{table}\n\nF1 x 100 over {stems}, mean of {report['summaries']:,} summaries; "
        f"{which} of each one's references ({report['references']:,} in all).\n"
        "ROUGE-L: a summary is one sequence of words; -Lsum: sentence by sentence."
    )


BLEU = {"tokenized": "tokenized BLEU", "compound_split": "compound-split BLEU"}
BLEU |= {"sacrebleu": "sacreBLEU"}


def scores_of(result: Mapping[str, Any]) -> list[str]:
    """Every score in a recipe's result.json, such as "27.30 tokenized BLEU"."""
    scores = []
    if bleu := result.get("bleu"):
        scores += [f"{bleu[key]:.2f} {t}" for key, t in BLEU.items() if bleu[key] is not None]
    if ppl := result.get("ppl"):
        (row,) = (row for row in ppl["results"] if row["name"] == "model")
        scores.append(f"perplexity {row['perplexity_per_word']:.2f} a word")
        scores.append(f"{row['bits_per_character']:.3f} bits a character")
    if rouge := result.get("rouge"):
        (row,) = (row for row in rouge["systems"] if row["name"] == "model")
        scores += [f"{row[key]:.2f} {title}" for key, title in KINDS.items() if key in row]
    if parsing := result.get("f1"):
        f1 = parsing["all"]["bracketing_fmeasure"]
        scores.append("no bracket right" if f1 is None else f"{f1:.2f} F1")
        scores.append(f"{parsing['malformed_percent']:.1f}% malformed without the constraint")
    return scores
