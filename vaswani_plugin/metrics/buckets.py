"""Which sentences a system translates well: BLEU by source length and by how rare the words are.

Figure 3 of Sutskever et al. (2014) sorts the test sentences by length (left) and by the average
frequency rank of their words (right). We add a stricter measure: the frequency of a sentence's
rarest word. Words are split by mteval-13a, so that running and tokenized text give the same result.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from vaswani_plugin.metrics.bleu import References, corpus_score

LENGTHS = (1, 11, 21, 31, 41, 51)
"""First length, in words, of each bucket; the last one is open."""
FREQUENCIES = (0, 1, 10, 100, 1000, 10_000)
"""First frequency of each bucket: how often the rarest word occurs in the training text."""
RANK_BUCKETS = 6
"""Number of buckets of equal size for sentences in the order of their average rank."""


@dataclass(frozen=True)
class Bucket:
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


def source_lengths(sources: Sequence[str]) -> list[int]:
    """The number of words of each sentence."""
    words = Tokenizer13a()
    return [len(words(line).split()) for line in sources]


def word_frequencies(training: Iterable[str], lowercase: bool = False) -> Counter[str]:
    """How often each word occurs in the training text.

    Args:
        training: the source side of the training set.
        lowercase: ignore case.
    """
    tokenize = Tokenizer13a()
    return Counter(word for line in training for word in _words(tokenize, line, lowercase))


def rarest_word_frequencies(
    sources: Sequence[str], frequencies: Mapping[str, int], lowercase: bool = False
) -> list[int]:
    """How often the rarest word of each sentence occurs in the training text.

    Args:
        sources: sentences of the test set.
        frequencies: of the words of the training text, by `word_frequencies`.
        lowercase: ignore case.

    Returns:
        A count for each sentence: 0 if a word was never seen, -1 for a sentence without words.
    """
    tokenize = Tokenizer13a()
    tested = [_words(tokenize, line, lowercase) for line in sources]
    return [min((frequencies.get(word, 0) for word in line), default=-1) for line in tested]


def average_frequency_ranks(
    sources: Sequence[str], frequencies: Mapping[str, int], lowercase: bool = False
) -> list[float]:
    """The mean frequency rank of each sentence's words (Sutskever et al. 2014, Figure 3, right).

    The rank of a word is 1 + the number of different words that are more frequent in the training
    text. The most frequent word has rank 1, words of equal frequency share a rank, and a word never
    seen ranks after all others.

    Args:
        sources: sentences of the test set.
        frequencies: of the words of the training text, by `word_frequencies`.
        lowercase: ignore case.

    Returns:
        A mean for each sentence; -1 for a sentence without words.
    """
    tokenize = Tokenizer13a()
    ascending = sorted(frequencies.values())
    total = len(ascending)

    def rank(word: str) -> int:
        return 1 + total - bisect_right(ascending, frequencies.get(word, 0))

    tested = [_words(tokenize, line, lowercase) for line in sources]
    return [fmean(map(rank, line)) if line else -1.0 for line in tested]


def _words(tokenize: Tokenizer13a, line: str, lowercase: bool) -> list[str]:
    return tokenize(line.lower() if lowercase else line).split()


def group(values: Sequence[int], firsts: Sequence[int]) -> list[Bucket]:
    """Sort sentences into the buckets that begin at `firsts` (ascending).

    Empty buckets and sentences with a value below the first bucket are left out.
    """
    lasts = [first - 1 for first in firsts[1:]] + [None]
    buckets = []
    for first, last in zip(firsts, lasts, strict=True):
        members = tuple(
            number
            for number, value in enumerate(values)
            if first <= value and (last is None or value <= last)
        )
        if members:
            buckets.append(Bucket(first, last, members))
    return buckets


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
