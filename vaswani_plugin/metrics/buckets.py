"""Which sentences a system translates well: BLEU by source length and by the rarest source word.

The two figures of Sutskever et al. 2014, who show that an LSTM holds on long sentences and falls
with rare words. Words are those of mteval-13a, so that running text and tokens give the same.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sacrebleu.metrics import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from vaswani_plugin.metrics.bleu import References, corpus_score

LENGTHS = (1, 11, 21, 31, 41, 51)
"""First length, in words, of each bucket; the last one is open."""
FREQUENCIES = (0, 1, 10, 100, 1000, 10_000)
"""First frequency of each bucket: how often the rarest word stands in the training text."""


@dataclass(frozen=True)
class Bucket:
    """Sentences (numbers from 0) whose value lies in first ... last; last None: in first and up."""

    first: int
    last: int | None
    members: tuple[int, ...]

    @property
    def label(self) -> str:
        """The range as people write it."""
        if self.last is None:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


def source_lengths(sources: Sequence[str]) -> list[int]:
    """Words of each sentence."""
    words = Tokenizer13a()
    return [len(words(line).split()) for line in sources]


def rarest_word_frequencies(
    sources: Sequence[str], training: Iterable[str], lowercase: bool = False
) -> list[int]:
    """How often the rarest word of each sentence stands in the training text.

    Args:
        sources: sentences of the test set.
        training: the source side of the training set.
        lowercase: ignore case.

    Returns:
        A count for each sentence: 0 with a word never seen, -1 for a sentence without words.
    """
    tokenize = Tokenizer13a()

    def words(line: str) -> list[str]:
        return tokenize(line.lower() if lowercase else line).split()

    tested = [words(line) for line in sources]
    wanted = {word for line in tested for word in line}
    seen = Counter(word for line in training for word in words(line) if word in wanted)
    return [min((seen[word] for word in line), default=-1) for line in tested]


def group(values: Sequence[int], firsts: Sequence[int]) -> list[Bucket]:
    """Sort sentences into the buckets that begin at `firsts` (ascending); none is empty.

    A value below the first of them belongs nowhere.
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
