"""Source texts as subwords; a text that is too long for the model is cut into pieces."""

from collections.abc import Sequence
from typing import NamedTuple

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.engine import Decoded
from vaswani_plugin.text.cutting import WORD_BORDERS, cut
from vaswani_plugin.text.pipeline import Pipeline


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


class Source(NamedTuple):
    """A text and its subwords.

    Attributes:
        text: as it was given.
        tokens: its subwords.
        pieces: the subwords in pieces that the model takes; an empty text has none.
    """

    text: str
    tokens: tuple[str, ...]
    pieces: list[Sequence[str]]


def encode(text: str, pipeline: Pipeline) -> tuple[str, ...]:
    """The subwords of a text; a line break counts as a space."""
    return tuple(pipeline.encode(text.replace("\n", " ")).split())


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
    tokens = encode(text, pipeline)
    if len(tokens) < least:
        raise UserError(f"{name} is an empty sentence")
    if len(tokens) > longest:
        raise UserError(f"{name} has {len(tokens)} subwords, the model takes {longest}: divide it")
    return tokens


def read_source(text: str, number: int, pipeline: Pipeline, longest: int, long: str) -> Source:
    """Encode a text to translate; cut it as `long` says.

    Args:
        text: the text.
        number: from 1 on, for errors.
        pipeline: of its language.
        longest: most subwords that the model takes.
        long: "error", "split" or "truncate".

    Raises:
        TextTooLong: it has more subwords, and `long` is "error".
    """
    tokens = encode(text, pipeline)
    if len(tokens) <= longest:
        return Source(text, tokens, [tokens] if tokens else [])
    if long == "error":
        raise TextTooLong(number, len(tokens), longest)
    if long == "truncate":
        return Source(text, tokens, [tokens[:longest]])
    return Source(text, tokens, list(cut(tokens, longest, WORD_BORDERS[pipeline.subwords])))


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
