"""All scores of one translation: the JSON object of `vaswani bleu`, and the same as text."""

from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from tabulate import tabulate

from vaswani_plugin.metrics import buckets
from vaswani_plugin.metrics.bleu import (
    chrf_metric,
    corpus_score,
    reading,
    sacrebleu_metric,
    tokenized_score,
)
from vaswani_plugin.metrics.bleu_input import Segments
from vaswani_plugin.metrics.significance import SAMPLES, bootstrap
from vaswani_plugin.metrics.tokenization import (
    make_scoring_tokenizer,
    replace_unicode_punctuation,
    split_compounds,
)
from vaswani_plugin.text.columns import read_text

TITLES = {
    "by_length": ("source words", "source length in words"),
    "by_average_rank": ("average rank", "average frequency rank of the source words"),
    "by_rarest_word": ("rarest word seen", "frequency of the rarest source word"),
}
"""Key of a table of buckets: (header of its first column, label of its plot's axis)."""


def score(
    segments: Segments,
    lowercase: bool,
    language: str | None,
    tokenized: bool,
    compound_split: bool,
    tokenizer: str = "13a",
) -> dict[str, Any]:
    """The scores of the command's JSON output.

    Args:
        segments: the text.
        lowercase: ignore case.
        language: of running text, which Moses' rules then tokenize for the first two scores.
        tokenized: the text is tokenized already.
        compound_split: also the score with hyphens split off.
        tokenizer: sacreBLEU's.
    """
    hypotheses, references = segments.hypotheses, segments.references
    metric = sacrebleu_metric(lowercase, tokenized, tokenizer)
    bleu = corpus_score(metric, hypotheses, references)
    chrf = corpus_score(chrf_metric(lowercase), hypotheses, references)
    result: dict[str, Any] = {"tokenized": None, "compound_split": None}
    result |= {"sacrebleu": bleu.score, "signature": bleu.signature}
    result |= {"reading": reading(bleu.score)}
    result |= {"chrf": chrf.score, "chrf_signature": chrf.signature}
    systems = [hypotheses, *references]
    if tokenized or language:
        result["tokenized"] = _words_score(_tokens(systems, language), lowercase)
    if compound_split:
        if language:
            systems = [[replace_unicode_punctuation(line) for line in side] for side in systems]
        split = [[split_compounds(x) for x in side] for side in _tokens(systems, language)]
        result["compound_split"] = _words_score(split, lowercase)
    return result


def _tokens(sides: list[list[str]], language: str | None) -> list[list[str]]:
    if language is None:
        return sides
    tokenize = make_scoring_tokenizer(language)
    return [[tokenize(line) for line in side] for side in sides]


def _words_score(sides: list[list[str]], lowercase: bool) -> float:
    return tokenized_score(sides[0], sides[1:], lowercase).score


def compare(
    segments: Segments, lowercase: bool, tokenized: bool, tokenizer: str = "13a"
) -> dict[str, Any]:
    """The keys "confidence" and, with a baseline, "baseline", by bootstrap resampling."""
    systems = [segments.hypotheses]
    if segments.baseline is not None:
        systems.insert(0, segments.baseline)
    metrics = {
        "sacrebleu": sacrebleu_metric(lowercase, tokenized, tokenizer),
        "chrf": chrf_metric(lowercase),
    }
    found = bootstrap(systems, segments.references, metrics)
    result: dict[str, Any] = {"confidence": {"samples": SAMPLES} | _intervals(found, -1)}
    if segments.baseline is not None:
        result["baseline"] = {name: column[0].score for name, column in found.items()}
        result["baseline"]["confidence"] = _intervals(found, 0)
        result["baseline"]["p_values"] = {n: column[-1].p_value for n, column in found.items()}
    return result


def _intervals(found: dict, system: int) -> dict[str, dict[str, float]]:
    return {
        name: {"mean": column[system].mean, "half_width": column[system].half_width}
        for name, column in found.items()
    }


def by_bucket(
    segments: Segments, lowercase: bool, training: Path | None, tokenizer: str = "13a"
) -> dict[str, Any]:
    """The tables of `TITLES`, each a list of rows; the last two need a training text.

    Raises:
        ValueError: a source without words, a training text that is empty or not UTF-8.
        OSError: the training text can't be read.
    """
    sources = segments.sources or []
    lengths = buckets.source_lengths(sources)
    if not any(lengths):
        raise ValueError("--source: no words in it")
    groups = {"by_length": buckets.group(lengths, buckets.LENGTHS)}
    if training is not None:
        # A line at a time: the training text may be larger than the memory.
        frequencies = buckets.word_frequencies(read_text(training), lowercase)
        ranks = buckets.average_frequency_ranks(sources, frequencies, lowercase)
        groups["by_average_rank"] = buckets.group_evenly(ranks, buckets.RANK_BUCKETS)
        rarest = buckets.rarest_word_frequencies(sources, frequencies, lowercase)
        groups["by_rarest_word"] = buckets.group(rarest, buckets.FREQUENCIES)
    metric = sacrebleu_metric(lowercase, knowingly=True, tokenizer=tokenizer)
    return {name: _rows(group, segments, metric) for name, group in groups.items()}


def _rows(groups: list[buckets.Bucket], segments: Segments, metric: BLEU) -> list[dict]:
    systems = {"sacrebleu": segments.hypotheses}
    if segments.baseline is not None:
        systems["baseline"] = segments.baseline
    columns = {
        name: buckets.bucket_scores(groups, lines, segments.references, metric)
        for name, lines in systems.items()
    }
    return [
        {"bucket": bucket.label, "sentences": len(bucket.members)}
        | {name: column[number] for name, column in columns.items()}
        for number, bucket in enumerate(groups)
    ]


def as_text(result: dict[str, Any]) -> str:
    """The result as text."""
    lines = []
    for name, title in (("tokenized", "tokenized BLEU"), ("compound_split", "compound-split")):
        if result[name] is not None:
            lines.append(f"{title}  {result[name]:.2f}")
    lines.append(f"sacreBLEU       {result['sacrebleu']:.2f}  {result['signature']}")
    lines.append(f"chrF            {result['chrf']:.2f}  {result['chrf_signature']}")
    lines.append(f"reading         {result['reading']}")
    if "confidence" in result:
        lines += ["", _comparison(result)]
    for name, (title, _) in TITLES.items():
        if name in result:
            rows = [
                {title if key == "bucket" else key: row[key] for key in row} for row in result[name]
            ]
            lines += ["", tabulate(rows, headers="keys", floatfmt=".2f", stralign="right")]
    return "\n".join(lines)


def _comparison(result: dict[str, Any]) -> str:
    systems = [("this system", result)]
    if "baseline" in result:
        systems.insert(0, ("baseline", result["baseline"]))
    rows = []
    for title, scores in systems:
        row = {f"95% of {SAMPLES} samples": title}
        for name in ("sacrebleu", "chrf"):
            interval = scores["confidence"][name]
            row[name] = (
                f"{scores[name]:.2f} ({interval['mean']:.2f} ± {interval['half_width']:.2f})"
            )
            if "baseline" in result:
                p_value = result["baseline"]["p_values"][name]
                row[f"p ({name})"] = "" if title == "baseline" else f"{p_value:.4f}"
        rows.append(row)
    return tabulate(rows, headers="keys", disable_numparse=True)
