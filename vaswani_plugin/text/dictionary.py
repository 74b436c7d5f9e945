"""fairseq's dictionaries, read without fairseq: `SYMBOL COUNT` a line, numbered as fairseq does.

`text/binary.py` reads dictionaries to make data with, and is stricter. This one takes every file
that fairseq takes, because a model's rows are numbered by it.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from vaswani_plugin.text.binary import SPECIAL_SYMBOLS
from vaswani_plugin.text.messages import InputError
from vaswani_plugin.text.settings import TEXT_DICTIONARY

OVERWRITE = "#fairseq:overwrite"
"""At the end of a line: the symbol may be there already; from here on this row is its number."""
BOS, PAD, EOS, UNK = range(len(SPECIAL_SYMBOLS))
"""Numbers of the special symbols."""


class Dictionary:
    """Symbols by number, and numbers by symbol.

    Args:
        symbols: those after the special ones. One that is given again gets a further row, and that
            row's number.

    Attributes:
        symbols: by number, the special ones first.
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
            InputError: a line is none of a dictionary, or a symbol comes twice; names the file.
            OSError: the file can't be read.
        """
        try:
            # Universal newlines, as fairseq: a lone "\r" ends a line, too.
            with open(path, encoding="utf-8") as stream:
                return cls(_read_symbols(stream))
        except ValueError as error:  # UnicodeDecodeError is one
            reason = "it is not UTF-8" if isinstance(error, UnicodeError) else str(error)
            raise InputError(
                f"{path}: no dictionary: {reason}; give the one that was made with the data"
            ) from error

    def __len__(self) -> int:
        return len(self.symbols)

    def __contains__(self, symbol: object) -> bool:
        return symbol in self.indices

    def __getitem__(self, number: int) -> str:
        return self.symbols[number]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dictionary) and self.indices == other.indices

    __hash__ = None  # as of anything that can be compared by its content

    def index(self, sym: str) -> int:
        """Number of a symbol; that of `<unk>` where it is missing."""
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
        """Symbols joined by spaces, without starts and ends of sentence."""
        return " ".join(self.symbols[n] for n in numbers if n not in (BOS, EOS))

    def digest(self) -> str:
        """Differs between dictionaries of other symbols, or of the same in another order."""
        return hashlib.sha256("\n".join(self.symbols).encode()).hexdigest()


def load_text_dictionary(folder: Path) -> Dictionary:
    """Read dict.txt, the dictionary of a language model's bundle or data folder.

    Raises:
        InputError: there is none, or it is no dictionary.
        OSError: it can't be read.
    """
    path = folder / TEXT_DICTIONARY
    if not path.is_file():
        raise InputError(
            f"{folder} has no {TEXT_DICTIONARY}: give what fairseq-preprocess --only-source wrote"
        )
    return Dictionary.load(path)


def _read_symbols(lines: Iterable[str]) -> Iterable[str]:
    """The symbols of a dictionary's lines.

    Raises:
        ValueError: a line is none of a dictionary, or a symbol comes twice.
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
