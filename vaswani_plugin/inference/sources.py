"""Source texts as subwords: a sentence is a piece, one that is too long for the model several."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.engine import Decoded
from vaswani_plugin.inference.results import EMPTY, Hypothesis, Translation
from vaswani_plugin.text.pipeline import WORD_BORDERS, Pipeline, cut
from vaswani_plugin.text.sentences import (
    check_text,
    has_words,
    join_sentences,
    split_sentences,
)
from vaswani_plugin.text.settings import Settings

USUAL_LENGTH = 250
"""Subwords of a sentence, at most, where a bundle does not tell the longest one of its training."""


class TextTooLong(UserError):
    """A text of more subwords than the model takes.

    Args:
        number: of the text, from 1 on.
        count: of its subwords.
        longest: most subwords that the model takes.
        message: None: that of a translator.
    """

    def __init__(self, number: int, count: int, longest: int, message: str | None = None) -> None:
        super().__init__(
            message
            or f"text {number} has {count} subwords, the model takes {longest}: give long='split' "
            "or long='truncate', or divide the text"
        )
        self.number, self.count, self.longest = number, count, longest


class Sentence(NamedTuple):
    """A sentence and its subwords.

    Attributes:
        tokens: its subwords.
        pieces: the subwords in pieces that the model takes; a sentence without words has none.
    """

    tokens: tuple[str, ...]
    pieces: list[Sequence[str]]


class Source(NamedTuple):
    """A text and its sentences."""

    text: str
    sentences: list[Sentence]

    @property
    def pieces(self) -> list[Sequence[str]]:
        """The subwords of all sentences, as the model takes them."""
        return [piece for sentence in self.sentences for piece in sentence.pieces]


def encode(text: str, pipeline: Pipeline, name: str = "the text") -> tuple[str, ...]:
    """The subwords of a text; a line break counts as a space.

    Raises:
        UserError: see `check_text`.
    """
    return tuple(pipeline.encode(check_text(text, name).replace("\n", " ")).split())


def encode_whole(
    text: str, pipeline: Pipeline, name: str, longest: int, least: int = 1
) -> tuple[str, ...]:
    """The subwords of a text that must fit into the model uncut.

    Args:
        text: the text.
        pipeline: of its language.
        name: of the text, for errors.
        longest: most subwords.
        least: fewest subwords.

    Raises:
        UserError: the text has fewer or more subwords.
    """
    tokens = encode(text, pipeline, name)
    if len(tokens) < least:
        raise UserError(f"{name} is an empty sentence")
    if len(tokens) > longest:
        raise UserError(f"{name} has {len(tokens)} subwords, the model takes {longest}: divide it")
    return tokens


def read_source(
    text: str, number: int, pipeline: Pipeline, longest: int, long: str, one_sentence: bool = False
) -> Source:
    """Encode a text to translate, sentence by sentence.

    A sentence of more subwords than the longest one in training is cut into pieces.

    Args:
        text: the text.
        number: from 1 on, for errors.
        pipeline: of its language.
        longest: most subwords that the model takes.
        long: what to do with more of them: "error", "split" or "truncate".
        one_sentence: the text is one sentence, and cut only where it is longer than `longest`.

    Raises:
        TextTooLong: a sentence has more subwords, and `long` is "error".
        UserError: see `check_text`.
    """
    plain = check_text(text, f"text {number}").replace("\n", " ")
    most = longest
    settings = pipeline.settings
    assert isinstance(settings, Settings)
    if one_sentence or pipeline.is_tokenized:
        texts = [plain]
    else:
        texts = split_sentences(plain, settings.source_language)
        most = min(longest, settings.longest_trained or USUAL_LENGTH)
    borders = WORD_BORDERS[pipeline.subwords]
    sentences = []
    for sentence in texts:
        tokens = encode(sentence, pipeline) if has_words(sentence) else ()
        if len(tokens) > longest and long == "error":
            raise TextTooLong(number, len(tokens), longest)
        kept = tokens[:longest] if long == "truncate" else tokens
        sentences.append(Sentence(tokens, list(cut(kept, most, borders)) if kept else []))
    return Source(text, sentences)


def join_translation(
    source: Source, decoded: Iterator[list[Decoded]], nbest: int, pipeline: Pipeline
) -> Translation:
    """Join the translations of a text's pieces, the next items of `decoded`.

    A text without words is its own translation.
    """
    assert isinstance(pipeline.settings, Settings)
    language = pipeline.settings.target_language
    parts: list[tuple[int, list[Decoded]]] = []
    shown: list[list[str]] = []  # of each sentence: the texts of its hypotheses
    for sentence in source.sentences:
        if sentence.pieces:
            pieces = [(len(piece), next(decoded)) for piece in sentence.pieces]
            found = join_pieces(pieces)
            parts.append((len(sentence.tokens), found))
            shown.append([pipeline.decode(" ".join(each.tokens)) for each in found[:nbest]])
    tokens = tuple(token for sentence in source.sentences for token in sentence.tokens)
    hypotheses = tuple(
        Hypothesis(text=join_sentences(texts, language), **found._asdict())
        for found, *texts in zip(join_pieces(parts)[:nbest], *shown, strict=False)
    )
    if not hypotheses:
        kept = "" if source.text.isspace() else " ".join(source.text.splitlines())
        hypotheses = (EMPTY if not kept else Hypothesis(kept, 0.0, (), (), ()),)
    return Translation(source.text, tokens, hypotheses)


def join_pieces(pieces: list[tuple[int, list[Decoded]]]) -> list[Decoded]:
    """Join the hypotheses of a text's pieces: the best ones, the second best ones, and so on.

    Args:
        pieces: for each piece the number of its source subwords, and its hypotheses.

    Returns:
        Hypotheses of the text. Tokens and token scores are concatenated, scores are added, and
        alignments count from the text's first subword.
    """
    if not pieces:
        return []
    source_start, whole = pieces[0]
    for length, piece in pieces[1:]:
        whole = [
            Decoded(
                first.tokens + second.tokens,
                first.score + second.score,
                first.token_scores + second.token_scores,
                first.alignment
                + tuple((s + source_start, t + len(first.tokens)) for s, t in second.alignment),
            )
            for first, second in zip(whole, piece, strict=False)
        ]
        source_start += length
    return whole
