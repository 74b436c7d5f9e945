"""fairseq's dictionaries, read without fairseq; binary.py writes them.

`dict.LANG.txt` has a line `symbol count` for each symbol, the most frequent first; symbols of equal
count are sorted by code point. The numbers 0 to 3 belong to <s>, <pad>, </s> and <unk>, which are
not in the file; the symbol of line 1 has number 4.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from vaswani_plugin.errors import UserError

SPECIAL_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")
BOS, PAD, EOS, UNK = range(len(SPECIAL_SYMBOLS))  # numbers of the special symbols
OVERWRITE = "#fairseq:overwrite"
"""At the end of a line: the symbol may occur earlier, and this row becomes its number."""
TEXT_DICTIONARY = "dict.txt"  # the dictionary of a language model's bundle or data folder

Entries = list[tuple[str, int]]  # symbols and counts, from the row with number 4 on


class Dictionary:
    """Symbols by number, and numbers by symbol, with fairseq's names.

    `symbols` are those after the special ones; of a repeated one the last row has the number.
    """

    nspecial = len(SPECIAL_SYMBOLS)

    def __init__(self, symbols: Iterable[str] = ()) -> None:
        self.symbols: list[str] = [*SPECIAL_SYMBOLS, *symbols]
        self.indices = {symbol: number for number, symbol in enumerate(self.symbols)}

    @classmethod
    def load(cls, path: Path) -> "Dictionary":
        """Read a `dict.LANG.txt`; raises the errors of `read_dictionary`."""
        return cls(symbol for symbol, _ in read_dictionary(path))

    def __len__(self) -> int:
        return len(self.symbols)

    def __contains__(self, symbol: object) -> bool:
        return symbol in self.indices

    def __getitem__(self, number: int) -> str:
        return self.symbols[number]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dictionary) and self.indices == other.indices

    __hash__ = None  # type: ignore[assignment]  # compared by content and mutable

    def index(self, sym: str) -> int:
        """Number of a symbol; that of `<unk>` if it is missing."""
        return self.indices.get(sym, UNK)

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


def plain_units(units: str) -> str:
    """Units of text, of which none is a special symbol: such a one becomes <unk>."""
    unknown = SPECIAL_SYMBOLS[UNK]
    return " ".join(unknown if unit in SPECIAL_SYMBOLS else unit for unit in units.split())


def digest_of(symbols: list[str]) -> str:
    """Hash of a dictionary's symbols in their order."""
    return hashlib.sha256("\n".join(symbols).encode()).hexdigest()


def read_dictionary(path: str | Path) -> Entries:
    """Reads every dictionary that fairseq reads, and no other; a `UserError` names a bad line."""
    entries: Entries = []
    seen = set(SPECIAL_SYMBOLS)
    # Universal newlines, as in fairseq: a lone "\r" also ends a line.
    with open(path, encoding="utf-8") as stream:
        try:
            for line in stream:
                symbol, count = line.rstrip().rsplit(" ", 1)
                if overwrites := count == OVERWRITE:
                    symbol, count = symbol.rsplit(" ", 1)
                if symbol in seen and not overwrites:
                    raise ValueError(symbol)
                seen.add(symbol)
                entries.append((symbol, int(count)))
        except ValueError as error:
            raise UserError(
                f"{path}:{len(entries) + 1}: no symbol, space and count, or a repeated symbol: not "
                "a dictionary; give the one that was made with the data"
            ) from error
    return entries


def dictionary_name(language: str) -> str:
    """Returns the file name of a language's dictionary."""
    return f"dict.{language}.txt"


def dictionary_names(source: str, target: str) -> dict[str, str]:
    """Returns the file names of two languages' dictionaries, by side."""
    return {"source": dictionary_name(source), "target": dictionary_name(target)}
