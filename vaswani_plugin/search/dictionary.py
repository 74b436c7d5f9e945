"""What a search asks of a dictionary: `text.dictionary` and fairseq's own both answer it."""

from typing import Protocol


class Dictionary(Protocol):
    """Symbols by number."""

    def __len__(self) -> int:
        """Number of symbols."""

    def index(self, sym: str) -> int:
        """Number of a symbol; that of the unknown one where it is missing."""

    def pad(self) -> int:
        """Number of padding."""

    def eos(self) -> int:
        """Number of the end of sentence."""

    def unk(self) -> int:
        """Number of the unknown symbol."""
