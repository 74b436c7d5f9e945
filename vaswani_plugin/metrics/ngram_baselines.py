"""Baselines of a language model, over words or the model's tokens: uniform, unigram, trigram."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from vaswani_plugin.metrics.ngram import NgramModel
from vaswani_plugin.metrics.perplexity import (
    TextCounts,
    count_text,
    cross_entropy_rate,
    perplexity,
)
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
TRAINING, VALIDATION = "training_perplexity", "validation_perplexity"
"""Keys of the report, and the texts whose perplexities they are."""


def baselines(
    subject: Subject, paths: Iterable[Path], validation: Path | None = None
) -> Iterator[dict[str, Any]]:
    """The report's rows of all baselines; warnings are appended to `subject.warnings`.

    A row also has the perplexity a token on the training text, `training_perplexity`, and on
    validation text, `validation_perplexity` (None without one): an n-gram model knows its training
    text far better than any other.

    Args:
        subject: the text to score.
        paths: training data: text files, of which words are counted, or data-bin folders, of which
            the tokens of the split `train` are counted. A folder's split `valid` is its validation
            text, where it has one.
        validation: text for the baselines of words; None: there is none.

    Raises:
        ValueError: the training data don't fit the text.
        OSError: a file can't be read.
    """
    for path in paths:
        if path.is_dir():
            yield from _of_tokens(subject, path)
        else:
            yield from _of_words(subject, path, validation)


def _of_words(subject: Subject, path: Path, validation: Path | None) -> Iterator[dict[str, Any]]:
    if subject.lines is None:
        raise ValueError(f"{path}: baselines of words need the words: give --text FILE as well")
    train = read_text(path)
    words = dict.fromkeys(word for line in train for word in line.split())
    words |= dict.fromkeys((LINE_END, UNKNOWN_WORD))
    indices = {word: number for number, word in enumerate(words)}
    tokens = number_lines(subject.lines, indices)
    subject.warnings.extend(unknown_warning(f"the words of {path}", tokens))
    counts = count_text(" ".join(line.split()) for line in subject.lines)
    texts = {TRAINING: number_lines(train, indices)}
    if validation is not None:
        texts[VALIDATION] = number_lines(read_text(validation), indices)
    scored = _Scored(tokens, "words", counts)
    yield from _rows(subject, scored, texts, len(indices), indices[LINE_END])


def _of_tokens(subject: Subject, path: Path) -> Iterator[dict[str, Any]]:
    if subject.tokens is None:
        raise ValueError(f"{path}: baselines of tokens need --model or --data-bin beside --text")
    if load_text_dictionary(path) != subject.dictionary:
        raise ValueError(f"{path} was binarized with another dictionary than the text to score")
    # <s> and <pad>, the first two rows, never occur in text, so they get no probability.
    first = subject.dictionary.eos()

    def shifted(tokens: Tokens) -> Tokens:
        return replace(tokens, numbers=tokens.numbers - first)

    texts = {TRAINING: shifted(read_binary(path, "train", subject.dictionary))}
    if (path / "valid.idx").is_file():
        texts[VALIDATION] = shifted(read_binary(path, "valid", subject.dictionary))
    scored = _Scored(shifted(subject.tokens), subject.coding, subject.counts)
    yield from _rows(subject, scored, texts, len(subject.dictionary) - first, 0)


class _Scored(NamedTuple):
    """The text to score, as the tokens of a baseline."""

    tokens: Tokens
    coding: str
    counts: TextCounts | None


def _rows(
    subject: Subject, text: _Scored, texts: dict[str, Tokens], vocabulary: int, end: int
) -> Iterator[dict[str, Any]]:
    """One row a baseline.

    Args:
        subject: says whether line ends are scored.
        text: to score.
        texts: the training text, by which the n-grams are counted, and the validation text.
        vocabulary: number of different tokens.
        end: number of the line end.
    """
    for name, order in ORDERS.items():
        model = NgramModel(texts[TRAINING].numbers, order, vocabulary, start=end)

        def log_p(tokens: Tokens, model: NgramModel = model) -> NDArray:
            return model.log_probabilities(tokens.numbers)[subject.scored(tokens)]

        others = {
            kind: perplexity(cross_entropy_rate(log_p(texts[kind])) / math.log(2))
            if kind in texts
            else None
            for kind in (TRAINING, VALIDATION)
        }
        details = {"unknown": text.tokens.unknown, **others}
        yield result(
            name, text.coding, log_p(text.tokens), subject.divisors(text.counts), **details
        )
