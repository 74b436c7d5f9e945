"""All scores of one translation: the JSON object of `vaswani bleu`, and the same as text.

Figure 3 of Sutskever et al. (2014) sorts the test sentences by length (left) and by the average
frequency rank of their words (right). We add a stricter measure: the frequency of a sentence's
rarest word. Words are split by mteval-13a, so that running and tokenized text give the same result;
in scripts without spaces, each character is a word.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from tabulate import tabulate

from vaswani_plugin.metrics.bleu import (
    WITHOUT_SPACES,
    References,
    chrf_metric,
    corpus_score,
    make_scoring_tokenizer,
    reading,
    replace_unicode_punctuation,
    sacrebleu_metric,
    split_compounds,
    tokenized_score,
)
from vaswani_plugin.metrics.segments import Segments, part_characters
from vaswani_plugin.text.lines import read_text

SAMPLES = 1000
"""Number of resampled test sets; the seed is sacreBLEU's (SACREBLEU_SEED, or 12345)."""
TITLES = {
    "by_length": ("source words", "source length in words"),
    "by_average_rank": ("average rank", "average frequency rank of the source words"),
    "by_rarest_word": ("rarest word seen", "frequency of the rarest source word"),
}
"""Key of a table of buckets: (header of its first column, label of its plot's axis)."""
LENGTHS = (1, 11, 21, 31, 41, 51)
"""First length, in words, of each bucket; the last one is open."""
FREQUENCIES = (0, 1, 10, 100, 1000, 10_000)
"""First frequency of each bucket: how often the rarest word occurs in the training text."""
RANK_BUCKETS = 6
"""Number of buckets of equal size for sentences in the order of their average rank."""


def score(
    segments: Segments,
    lowercase: bool = False,
    language: str | None = None,
    compound_split: bool = False,
    tokenizer: str = "13a",
) -> dict[str, Any]:
    """The scores of the command's JSON output.

    Args:
        segments: the text.
        lowercase: ignore case.
        language: of running text, which Moses' rules then tokenize for the first two scores.
        compound_split: also the score with hyphens split off.
        tokenizer: sacreBLEU's.
    """
    hypotheses, references = segments.hypotheses, segments.references
    bleu = corpus_score(sacrebleu_metric(lowercase, tokenizer), hypotheses, references)
    chrf = corpus_score(chrf_metric(lowercase), hypotheses, references)
    result: dict[str, Any] = {"tokenized": None, "compound_split": None}
    result |= {"sacrebleu": bleu.score, "signature": bleu.signature}
    result |= {"reading": reading(bleu.score)}
    result |= {"chrf": chrf.score, "chrf_signature": chrf.signature}
    systems = [hypotheses, *references]
    tokenize = None
    if not segments.tokenized and language and language not in WITHOUT_SPACES:
        tokenize = make_scoring_tokenizer(language)
    if segments.tokenized or tokenize:
        words = [list(map(tokenize, side)) for side in systems] if tokenize else systems
        result["tokenized"] = tokenized_score(words[0], words[1:], lowercase)
    if compound_split:
        if tokenize:
            systems = [[tokenize(replace_unicode_punctuation(x)) for x in s] for s in systems]
        split = [list(map(split_compounds, side)) for side in systems]
        result["compound_split"] = tokenized_score(split[0], split[1:], lowercase)
    return result


def compare(
    segments: Segments, lowercase: bool = False, tokenizer: str = "13a", samples: int = SAMPLES
) -> dict[str, Any]:
    """How sure the scores are: sacreBLEU's bootstrap resampling over the test set (Koehn 2004).

    Returns:
        The key "confidence": 95% of the samples lie between mean - half_width and mean +
        half_width. With a baseline, "baseline": its scores, and the probability of a difference at
        least this large if the systems were equal.
    """
    outputs = [segments.hypotheses]
    if segments.baseline is not None:
        outputs.insert(0, segments.baseline)
    systems: list[tuple[str, Sequence[str]]] = [(str(n), list(x)) for n, x in enumerate(outputs)]
    references = [list(lines) for lines in segments.references]
    metrics: dict[str, Metric] = {
        "sacrebleu": sacrebleu_metric(lowercase, tokenizer),
        "chrf": chrf_metric(lowercase),
    }
    found: dict[str, Any] = {}
    for name, metric in metrics.items():
        test = PairedTest(systems, {name: metric}, references, test_type="bs", n_samples=samples)
        (found[name],) = (column for title, column in test()[1].items() if title != "System")

    def intervals(system: int) -> dict[str, dict[str, float]]:
        return {
            name: {"mean": float(column[system].mean), "half_width": float(column[system].ci)}
            for name, column in found.items()
        }

    result: dict[str, Any] = {"confidence": {"samples": samples} | intervals(-1)}
    if segments.baseline is not None:
        result["baseline"] = {name: column[0].score for name, column in found.items()}
        result["baseline"]["confidence"] = intervals(0)
        result["baseline"]["p_values"] = {n: column[-1].p_value for n, column in found.items()}
    return result


class Bucket(NamedTuple):
    """Sentences (numbered from 0) with a value from first to last; last None: no upper limit."""

    first: int
    last: int | None
    members: tuple[int, ...]

    @property
    def label(self) -> str:
        """The range as text, such as 11-20 or 51+."""
        if self.last is None:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


def words_of(lines: Iterable[str], lowercase: bool = False) -> Iterable[list[str]]:
    """The words of each line by which sentences are sorted into buckets."""
    tokenize = Tokenizer13a()
    for line in lines:
        yield tokenize(part_characters(line.lower() if lowercase else line)).split()


def average_rank(
    words: Sequence[str], frequencies: Mapping[str, int], ascending: list[int]
) -> float:
    """The mean frequency rank of a sentence's words (Sutskever et al. 2014, Figure 3, right).

    The rank of a word is 1 + the number of different words that are more frequent in the training
    text. The most frequent word has rank 1, words of equal frequency share a rank, and a word never
    seen ranks after all others.

    Args:
        words: of a sentence of the test set.
        frequencies: of the words of the training text.
        ascending: the frequencies in order.

    Returns:
        -1 for a sentence without words.
    """
    total = len(ascending)
    ranks = [1 + total - bisect_right(ascending, frequencies.get(word, 0)) for word in words]
    return fmean(ranks) if ranks else -1.0


def group(values: Sequence[int], firsts: Sequence[int]) -> list[Bucket]:
    """Sort sentences into the buckets that begin at `firsts` (ascending).

    Empty buckets and sentences with a value below the first bucket are left out.
    """
    members: dict[int, list[int]] = {}
    for number, value in enumerate(values):
        members.setdefault(bisect_right(firsts, value) - 1, []).append(number)
    lasts = [first - 1 for first in firsts[1:]] + [None]
    return [
        Bucket(firsts[place], lasts[place], tuple(members[place]))
        for place in sorted(members)
        if place >= 0
    ]


def group_evenly(values: Sequence[float], count: int) -> list[Bucket]:
    """Sort sentences by their value and cut the order into `count` buckets of equal size.

    The sizes differ by one at most. Fewer sentences than `count` make fewer buckets. Sentences with
    a negative value are left out. The borders of a bucket are its lowest and its highest value,
    rounded.
    """
    order = sorted((n for n, value in enumerate(values) if value >= 0), key=lambda n: values[n])
    count = min(count, len(order))
    cuts = [len(order) * place // count for place in range(count + 1)] if count else []
    parts = [order[start:end] for start, end in zip(cuts, cuts[1:], strict=False)]
    return [
        Bucket(round(values[part[0]]), round(values[part[-1]]), tuple(sorted(part)))
        for part in parts
    ]


def bucket_scores(
    buckets: Sequence[Bucket], hypotheses: Sequence[str], references: References, metric: BLEU
) -> list[float]:
    """Corpus BLEU (0 to 100) of each bucket by itself."""
    scores = []
    for bucket in buckets:
        chosen = [hypotheses[number] for number in bucket.members]
        golds = [[lines[number] for number in bucket.members] for lines in references]
        scores.append(corpus_score(metric, chosen, golds).score)
    return scores


def by_bucket(
    segments: Segments,
    lowercase: bool = False,
    training: Path | None = None,
    tokenizer: str = "13a",
) -> dict[str, Any]:
    """The tables of `TITLES`, each a list of rows; the last two need a training text.

    Raises:
        ValueError: a source without words, a training text that is empty or not UTF-8.
        OSError: the training text can't be read.
    """
    sources = list(words_of(segments.sources or [], lowercase))
    if not any(sources):
        raise ValueError("--source: no words in it")
    groups = {"by_length": group(list(map(len, sources)), LENGTHS)}
    if training is not None:
        # A line at a time: the training text may be larger than the memory.
        seen = Counter(w for line in words_of(read_text(training), lowercase) for w in line)
        ascending = sorted(seen.values())
        ranks = [average_rank(words, seen, ascending) for words in sources]
        groups["by_average_rank"] = group_evenly(ranks, RANK_BUCKETS)
        rarest = [min((seen[word] for word in words), default=-1) for words in sources]
        groups["by_rarest_word"] = group(rarest, FREQUENCIES)
    metric = sacrebleu_metric(lowercase, tokenizer)
    return {name: _rows(buckets, segments, metric) for name, buckets in groups.items()}


def _rows(groups: list[Bucket], segments: Segments, metric: BLEU) -> list[dict]:
    systems = {"sacrebleu": segments.hypotheses}
    if segments.baseline is not None:
        systems["baseline"] = segments.baseline
    columns = {
        name: bucket_scores(groups, lines, segments.references, metric)
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
        row = {f"95% of {result['confidence']['samples']} samples": title}
        for name in ("sacrebleu", "chrf"):
            mean, width = scores["confidence"][name].values()
            row[name] = f"{scores[name]:.2f} ({mean:.2f} ± {width:.2f})"
            if "baseline" in result:
                p_value = result["baseline"]["p_values"][name]
                row[f"p ({name})"] = "" if title == "baseline" else f"{p_value:.4f}"
        rows.append(row)
    return tabulate(rows, headers="keys", disable_numparse=True)
