"""Raw lines for `vaswani translate`: read, made subwords, cut where too long, in buffers."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from vaswani_plugin.text.corpus_io import InputError, decode_lines, open_binary
from vaswani_plugin.text.pipeline import Pipeline

BYTE_ORDER_MARK = "\ufeff"
SENTENCE_END = re.compile(r"▁?[.!?;:…。！？؟।]+")
# Between which two subwords, (before, after), a word ends.
WORD_BORDERS: dict[str, Callable[[str, str], bool]] = {
    "subword-nmt": lambda before, after: not before.endswith("@@"),
    "sentencepiece": lambda before, after: after.startswith("▁"),
    "none": lambda before, after: True,
}


@dataclass(frozen=True)
class Sentence:
    """One raw line.

    Args:
        number: of the line, from 1 on, over all inputs.
        source: the line as it was read.
        pieces: its subwords; none for an empty line, several for one that had to be cut.
    """

    number: int
    source: str
    pieces: list[str]


def read_raw(paths: list[str]) -> Iterator[tuple[str, str]]:
    """Yields each line of the files (`-`: standard input) after its place, ``FILE:LINE``.

    A byte order mark at the start of a file is no text.

    Raises:
        InputError: invalid UTF-8 or a broken .gz file.
        OSError: a file can't be read.
    """
    for path in paths:
        name = "standard input" if path == "-" else path
        with open_binary(path) as stream:
            for number, line in enumerate(decode_lines(stream, name), start=1):
                yield f"{name}:{number}", line.removeprefix(BYTE_ORDER_MARK if number == 1 else "")


def cut(
    tokens: list[str], longest: int, is_word_border: Callable[[str, str], bool]
) -> Iterator[list[str]]:
    """Cuts subwords into pieces of at most `longest`.

    A cut comes after the last end of a sentence in the second half of what fits, else after the
    last whole word there, else (in one endless word) where it has to.
    """
    start = 0
    while len(tokens) - start > longest:
        places = range(start + longest, start + longest // 2, -1)
        words = [place for place in places if is_word_border(tokens[place - 1], tokens[place])]
        ends = (place for place in words if SENTENCE_END.fullmatch(tokens[place - 1]))
        place = next(ends, words[0] if words else start + longest)
        yield tokens[start:place]
        start = place
    yield tokens[start:]


def read_sentences(
    paths: list[str], pipeline: Pipeline, longest: int, when_long: str
) -> Iterator[Sentence]:
    """Yields the lines as sentences, in order.

    Args:
        paths: files; `-` is standard input.
        pipeline: makes subwords.
        longest: most subwords of a piece.
        when_long: "error", "split" or "truncate".

    Raises:
        InputError: a line can't be read, or has too many subwords; names it.
        OSError: a file can't be read.
    """
    is_word_border = WORD_BORDERS[pipeline.settings.subwords]
    for number, (place, line) in enumerate(read_raw(paths), start=1):
        tokens = pipeline.encode(line).split()
        pieces = [tokens] if tokens else []
        if len(tokens) > longest:
            if when_long == "error":
                raise InputError(
                    f"{place}: the line has {len(tokens)} subwords, the model takes {longest}: "
                    "give --long split or --long truncate, or divide the line"
                )
            pieces = list(cut(tokens, longest, is_word_border))
            if when_long == "truncate":
                pieces = [tokens[:longest]]
        yield Sentence(number, line, [" ".join(piece) for piece in pieces])


def in_buffers(sentences: Iterator[Sentence], size: int) -> Iterator[list[Sentence]]:
    """Groups sentences into lists of `size`.

    Raises, after what was read before it has been handed over:
        ValueError: a line can't be used.
        OSError: a file can't be read.
    """
    buffer: list[Sentence] = []
    try:
        for sentence in sentences:
            buffer.append(sentence)
            if len(buffer) == size:
                yield buffer
                buffer = []
    except InputError as error:
        yield buffer
        raise ValueError(str(error)) from error
    except OSError:
        yield buffer
        raise
    if buffer:
        yield buffer
