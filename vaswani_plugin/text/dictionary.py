"""fairseq's dictionaries, read without fairseq: `SYMBOL COUNT` a line, numbered as fairseq does.

`text/binary.py` reads dictionaries for making data, and is stricter. This module accepts every file
that fairseq accepts, because such a file numbers the rows of a model's embedding matrix.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from vaswani_plugin.text.binary import SPECIAL_SYMBOLS
from vaswani_plugin.text.messages import InputError
from vaswani_plugin.text.settings import TEXT_DICTIONARY

OVERWRITE = "#fairseq:overwrite"
"""At the end of a line: the symbol may occur earlier, and this row becomes its number."""
BOS, PAD, EOS, UNK = range(len(SPECIAL_SYMBOLS))
"""Numbers of the special symbols."""


class Dictionary:
    """Symbols by number, and numbers by symbol.

    Args:
        symbols: those after the special ones. A repeated symbol gets a second row, whose number
            becomes the symbol's.

    Attributes:
        symbols: in the order of their numbers, the special ones first.
        indices: numbers by symbol.
        nspecial: number of special symbols.
    """

    nspecial = len(SPECIAL_SYMBOLS)

    def __init__(self, symbols: Iterable[str] = ()) -> None:
        self.symbols: list[str] = [*SPECIAL_SYMBOLS, *symbols]
        self.indices = {symbol: number for number, symbol in enumerate(self.symbols)}

    @classmethod
    def load(cls, path: Path) -> "Dictionary":
        """Read a `dict.LANG.txt`.

        Raises:
            InputError: a line is not `SYMBOL COUNT`, or a symbol occurs twice; names the file.
            OSError: the file can't be read.
        """
        try:
            # Universal newlines, as in fairseq: a lone "\r" also ends a line.
            with open(path, encoding="utf-8") as stream:
                return cls(_read_symbols(stream))
        except ValueError as error:  # UnicodeDecodeError is one
            reason = "it is not UTF-8" if isinstance(error, UnicodeError) else str(error)
            raise InputError(
                f"{path}: not a dictionary: {reason}; give the one that was made with the data"
            ) from error

    def __len__(self) -> int:
        return len(self.symbols)

    def __contains__(self, symbol: object) -> bool:
        return symbol in self.indices

    def __getitem__(self, number: int) -> str:
        return self.symbols[number]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dictionary) and self.indices == other.indices

    __hash__ = None  # compared by content and mutable, so not hashable

    def index(self, sym: str) -> int:
        """Number of a symbol; the number of `<unk>` if the symbol is missing."""
        return self.indices.get(sym, UNK)

    def bos(self) -> int:
        """Number of the start of sentence."""
        return BOS

    def pad(self) -> int:
        """Number of padding."""
        return PAD

    def eos(self) -> int:
        """Number of the end of sentence."""
        return EOS

    def unk(self) -> int:
        """Number of the unknown symbol."""
        return UNK

    def string(self, numbers: Iterable[int]) -> str:
        """Joins the symbols of `numbers` by spaces, without <s> and </s>."""
        return " ".join(self.symbols[n] for n in numbers if n not in (BOS, EOS))

    def digest(self) -> str:
        """Hash of the symbols in their order: equal for equal dictionaries only."""
        return digest_of(self.symbols)


def digest_of(symbols: list[str]) -> str:
    """Hash of a dictionary's symbols in their order."""
    return hashlib.sha256("\n".join(symbols).encode()).hexdigest()


def load_text_dictionary(folder: Path) -> Dictionary:
    """Read dict.txt, the dictionary of a language model's bundle or data folder.

    Raises:
        InputError: the file is missing, or is no dictionary.
        OSError: it can't be read.
    """
    path = folder / TEXT_DICTIONARY
    if not path.is_file():
        raise InputError(
            f"{folder} has no {TEXT_DICTIONARY}: give what fairseq-preprocess --only-source wrote"
        )
    return Dictionary.load(path)


def _read_symbols(lines: Iterable[str]) -> Iterable[str]:
    """Yields the symbols of a dictionary's lines.

    Raises:
        ValueError: a line is not `SYMBOL COUNT`, or a symbol occurs twice.
    """
    seen = set(SPECIAL_SYMBOLS)
    for number, line in enumerate(lines, start=1):
        symbol, count = _split(line, number)
        overwrites = count == OVERWRITE
        if overwrites:
            symbol, count = _split(symbol, number)
        try:
            int(count)
        except ValueError as error:
            raise ValueError(f"line {number} must end in a count: {line.rstrip()!r}") from error
        if symbol in seen and not overwrites:
            raise ValueError(f"line {number}: {symbol!r} is in the dictionary already")
        seen.add(symbol)
        yield symbol


def _split(text: str, number: int) -> tuple[str, str]:
    symbol, blank, last = text.rstrip().rpartition(" ")
    if not blank:
        raise ValueError(f"line {number} must be a symbol, a space and a count: {text.rstrip()!r}")
    return symbol, last
