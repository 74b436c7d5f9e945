"""The part of a dictionary that a search needs; `text.dictionary` and fairseq's own have it."""

from typing import Protocol


class Dictionary(Protocol):
    """Symbols by number."""

    def __len__(self) -> int:
        """Number of symbols."""

    def index(self, sym: str) -> int:
        """Number of a symbol; the unknown symbol's number where it is missing."""

    def pad(self) -> int:
        """Number of the padding symbol."""

    def eos(self) -> int:
        """Number of the end of sentence."""

    def unk(self) -> int:
        """Number of the unknown symbol."""
