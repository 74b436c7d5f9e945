"""Runs texts through a model, in buffers of a stream and in batches; what a translation is."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple, TypeVar

import numpy as np
from tqdm import tqdm

from vaswani_plugin.errors import UserError
from vaswani_plugin.search.options import Options
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.raw_text import check_text

Read = TypeVar("Read")
T = TypeVar("T")
Tokens = Sequence[str]


class TextTooLong(UserError):
    """A text of more subwords than the model takes; `number` counts texts from 1 on."""

    def __init__(self, number: int, count: int, longest: int, message: str | None = None) -> None:
        size = f"text {number} has {count} subwords, the model takes {longest}"
        super().__init__(message or f"{size}: give long='split' or 'truncate', or divide the text")
        self.number, self.count, self.longest = number, count, longest


class Hypothesis(NamedTuple):
    """One translation; an engine gives it without its text.

    Attributes:
        text: running text.
        score: log P / length penalty, summed over sentences and parts; logarithms are natural.
        tokens: the model's subwords, without the end of sentence.
        token_scores: log P of each token, then of the end of sentence; of several parts in order.
            CTranslate2 gives them with `align` alone.
        alignment: (source, target) positions of subwords; empty without the option `align`.
    """

    text: str
    score: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    alignment: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Translation:
    """A text and its translations.

    Args:
        source: the text as it was given.
        source_tokens: its subwords.
        hypotheses: the best one first, at least one.
    """

    source: str
    source_tokens: tuple[str, ...]
    hypotheses: tuple[Hypothesis, ...]

    @property
    def text(self) -> str:
        """The best translation."""
        return self.hypotheses[0].text

    @property
    def score(self) -> float:
        """The best translation's log P / length penalty, summed over sentences and their parts."""
        return self.hypotheses[0].score

    @property
    def tokens(self) -> tuple[str, ...]:
        """The subwords of the best translation."""
        return self.hypotheses[0].tokens

    @property
    def token_scores(self) -> tuple[float, ...]:
        """log P of the best translation's subwords, and after each sentence or part of its end."""
        return self.hypotheses[0].token_scores

    @property
    def alignment(self) -> tuple[tuple[int, int], ...]:
        """(source, target) positions of the best translation; empty without the option `align`."""
        return self.hypotheses[0].alignment


@dataclass(frozen=True)
class Score:
    """The model's score of a given translation.

    Args:
        log_probability: log P of the target, its end included.
        tokens: subwords of the target, without the end of sentence.
        token_scores: log P of each, then of the end of sentence; of several sentences in order.
        score: log P / length penalty, summed over the sentences, as that of a `Translation`.
    """

    log_probability: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    score: float


def one_line(text: str, name: str = "the text") -> str:
    """A text with spaces for its line breaks; raises the errors of `check_text`."""
    return check_text(text, name).replace("\n", " ")


def encode(text: str, pipeline: Pipeline, name: str = "the text") -> tuple[str, ...]:
    """The subwords of a text; a line break counts as a space."""
    return tuple(pipeline.encode(one_line(text, name)).split())


def encode_whole(
    text: str, pipeline: Pipeline, name: str, longest: int, least: int = 1
) -> tuple[str, ...]:
    """The subwords, from `least` to `longest`, of a text that `name` names in the `UserError`."""
    tokens = encode(text, pipeline, name)
    if len(tokens) < least:
        raise UserError(f"{name} is an empty sentence")
    if len(tokens) > longest:
        raise UserError(f"{name} has {len(tokens)} subwords, the model takes {longest}: divide it")
    return tokens


def seed_of(seed: int | None, number: int) -> int | None:
    """The seed of one batch or text: each number of a caller's seed gives other random numbers."""
    if seed is None:
        return None
    words = np.random.SeedSequence((seed % 2**64, number)).generate_state(2, np.uint32)
    return int(words[0]) << 31 | int(words[1]) >> 1


def batches_by_length(
    lengths: Sequence[int], most: int, order: Iterable[int] | None = None
) -> Iterator[list[int]]:
    """Group texts of similar length into batches, as numbers of texts from 0 on.

    A batch has at most `most` tokens with padding, or one text; by default the longest come first.
    """
    batch: list[int] = []
    longest = 0
    for number in order or sorted(range(len(lengths)), key=lambda n: -lengths[n]):
        longest = max(longest, lengths[number])
        if batch and longest * (len(batch) + 1) > most:
            yield batch
            batch, longest = [], lengths[number]
        batch.append(number)
    if batch:
        yield batch


class Batches:
    """The batches of one call of a method that searches; each has a seed of its own."""

    def __init__(self, options: Options, bar: Any = None) -> None:
        self.most, self.seed, self.numbers = options.batch_tokens, options.seed, count()
        self.bar = progress_bar("", False) if bar is None else bar

    def answers(
        self,
        texts: Sequence[Sequence[object]],
        answer: Callable[[list[int], int | None], Sequence[T]],
    ) -> list[T]:
        """The answer to each text, given as tokens without its end.

        `answer` is called with a batch of texts of similar length, as numbers from 0 on, and its
        seed. The total of the bar grows by the texts, and each batch moves it.
        """
        answers: dict[int, T] = {}
        self.bar.total += len(texts)
        for batch in batches_by_length([len(text) + 1 for text in texts], self.most):
            seed = seed_of(self.seed, next(self.numbers))
            answers.update(zip(batch, answer(batch, seed), strict=True))
            self.bar.update(len(batch))
        return [answers[number] for number in range(len(texts))]


def run(
    texts: Iterable[str],
    read: Callable[[int, str], Read],
    answer: Callable[[list[Read], Batches], Iterable[T]],
    buffer: int,
    options: Options,
    unit: str,
    progress: bool,
) -> Iterator[T]:
    """The answers to a stream of texts, `buffer` of which are read before they are answered.

    Args:
        texts: the stream; may be endless. It may have a method `at_hand`, which says whether the
            next text is there: if not, those before it are answered, unless a seed asks for the
            same batches each time.
        read: called with the number of a text, from 1 on, and the text.
        answer: called with what was read of some texts; gives an answer to each.
        progress: show a bar on standard error, which counts the `unit` with every batch.

    Raises:
        Exception: any exception of `texts` or `read`, after the answers to the texts before it.
    """
    items = (read(number, text) for number, text in enumerate(texts, start=1))
    at_hand = getattr(texts, "at_hand", None) if options.seed is None else None
    with progress_bar(unit, progress) as bar:
        batches = Batches(options, bar)
        for together in _buffers(items, buffer, at_hand):
            yield from answer(together, batches)


def _buffers(
    items: Iterable[Read], size: int, at_hand: Callable[[], bool] | None
) -> Iterator[list[Read]]:
    buffer: list[Read] = []
    try:
        for item in items:
            buffer.append(item)
            if len(buffer) >= size or at_hand and not at_hand():
                yield buffer
                buffer = []
    except Exception:
        if buffer:
            yield buffer
        raise
    if buffer:
        yield buffer


def one_or_many(texts: str | Iterable[str], stream: Callable[..., Iterator[T]]) -> T | list[T]:
    """The answer to one text, or the answers to several in common batches, by `stream`."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):  # None and NaN are no texts
        return next(stream([texts]))
    lines = list(texts)
    return list(stream(lines, buffer=max(1, len(lines))))


def progress_bar(unit: str, shown: bool, total: int = 0) -> Any:
    """A bar on standard error, in a notebook a widget; where not shown, nothing."""
    if not shown:
        return tqdm(total=total, disable=True)
    from tqdm.auto import tqdm as widget

    return widget(total=total, unit=f" {unit}")
