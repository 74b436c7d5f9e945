"""Baselines of a language model, over words or the model's tokens: uniform, unigram, trigram."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from vaswani_plugin.metrics.ngram import NgramModel
from vaswani_plugin.metrics.perplexity import TextCounts, count_text
from vaswani_plugin.metrics.perplexity_report import result
from vaswani_plugin.metrics.scored_text import (
    LINE_END,
    UNKNOWN_WORD,
    Subject,
    Tokens,
    number_lines,
    read_binary,
    read_text,
    unknown_warning,
)
from vaswani_plugin.text.dictionary import load_text_dictionary

ORDERS = {"uniform": 0, "unigram": 1, "trigram": 3}


def baselines(subject: Subject, paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """The report's rows of all baselines; warnings are appended to `subject.warnings`.

    Args:
        subject: the text to score.
        paths: training data: text files, of which words are counted, or data-bin folders, of which
            the tokens of the split `train` are counted.

    Raises:
        ValueError: the training data don't fit the text.
        OSError: a file can't be read.
    """
    for path in paths:
        yield from (_of_tokens if path.is_dir() else _of_words)(subject, path)


def _of_words(subject: Subject, path: Path) -> Iterator[dict[str, Any]]:
    if subject.lines is None:
        raise ValueError(f"{path}: baselines of words need the words: give --text FILE as well")
    train = read_text(path)
    words = dict.fromkeys(word for line in train for word in line.split())
    words |= dict.fromkeys((LINE_END, UNKNOWN_WORD))
    indices = {word: number for number, word in enumerate(words)}
    tokens = number_lines(subject.lines, indices)
    subject.warnings.extend(unknown_warning(f"the words of {path}", tokens))
    counts = count_text(" ".join(line.split()) for line in subject.lines)
    numbers, end = number_lines(train, indices).numbers, indices[LINE_END]
    yield from _rows(subject, tokens, "words", counts, (numbers, len(indices), end))


def _of_tokens(subject: Subject, path: Path) -> Iterator[dict[str, Any]]:
    if subject.tokens is None:
        raise ValueError(f"{path}: baselines of tokens need --model or --data-bin beside --text")
    if load_text_dictionary(path) != subject.dictionary:
        raise ValueError(f"{path} was binarized with another dictionary than the text to score")
    # <s> and <pad>, the first two rows, never occur in text, so they get no probability.
    first = subject.dictionary.eos()
    train = read_binary(path, "train", subject.dictionary).numbers - first
    tokens = subject.tokens
    shifted = Tokens(tokens.numbers - first, tokens.sizes, tokens.is_end, tokens.unknown)
    training = (train, len(subject.dictionary) - first, 0)
    yield from _rows(subject, shifted, subject.coding, subject.counts, training)


def _rows(
    subject: Subject,
    tokens: Tokens,
    coding: str,
    counts: TextCounts | None,
    training: tuple[NDArray, int, int],
) -> Iterator[dict[str, Any]]:
    """One row a baseline; `training`: the token numbers, the size of the vocabulary, and </s>."""
    numbers, vocabulary, end = training
    scored = subject.scored(tokens)
    for name, order in ORDERS.items():
        model = NgramModel(numbers, order, vocabulary, start=end)
        scores = model.log_probabilities(tokens.numbers)[scored]
        yield result(name, coding, scores, subject.divisors(counts), unknown=tokens.unknown)
