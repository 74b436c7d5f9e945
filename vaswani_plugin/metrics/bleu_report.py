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

from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from tabulate import tabulate

from vaswani_plugin.metrics.bleu import (
    WITHOUT_SPACES,
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
    hypotheses, references = segments.hypotheses, segments.references

    def row(bucket: Bucket) -> dict[str, Any]:
        chosen = [hypotheses[number] for number in bucket.members]
        golds = [[lines[number] for number in bucket.members] for lines in references]
        found = corpus_score(metric, chosen, golds).score
        return {"bucket": bucket.label, "sentences": len(bucket.members), "sacrebleu": found}

    return {name: list(map(row, buckets)) for name, buckets in groups.items()}


def as_text(result: dict[str, Any]) -> str:
    """The result as text."""
    lines = []
    for name, title in (("tokenized", "tokenized BLEU"), ("compound_split", "compound-split")):
        if result[name] is not None:
            lines.append(f"{title}  {result[name]:.2f}")
    lines.append(f"sacreBLEU       {result['sacrebleu']:.2f}  {result['signature']}")
    lines.append(f"chrF            {result['chrf']:.2f}  {result['chrf_signature']}")
    lines.append(f"reading         {result['reading']}")
    for name, (title, _) in TITLES.items():
        if name in result:
            rows = [
                {title if key == "bucket" else key: row[key] for key in row} for row in result[name]
            ]
            lines += ["", tabulate(rows, headers="keys", floatfmt=".2f", stralign="right")]
    return "\n".join(lines)
