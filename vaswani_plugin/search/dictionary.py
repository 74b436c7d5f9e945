"""The part of a dictionary that a search needs; `text.dictionary` and fairseq's own have it."""

from typing import Protocol

from vaswani_plugin.errors import UserError


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


def require_one_dictionary(models: list, dictionary: Dictionary) -> None:
    """Check that every model of an ensemble has this target dictionary.

    Raises:
        UserError: when one has another.
    """
    for number, model in enumerate(models, start=1):
        own = getattr(model.decoder, "dictionary", None)
        if own is not None and own != dictionary:
            raise UserError(
                f"model {number} of {len(models)} has another target dictionary ({len(own)} "
                f"tokens) than the task ({len(dictionary)}); an ensemble needs models that were "
                f"trained on the same binarized data"
            )
