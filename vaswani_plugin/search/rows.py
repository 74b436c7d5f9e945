"""Row numbers of a batch in which each sentence has W rows, side by side.

Axes: B sentences, W rows of each (beams, heads or groups), R = B W rows.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor


def all_rows(sentences: Tensor, width: int) -> Tensor:
    """All rows of some sentences, (B' W,).

    Args:
        sentences: their numbers, (B',).
        width: W.
    """
    inside = torch.arange(width, device=sentences.device)
    return (sentences[:, None] * width + inside).flatten()


def chosen_rows(places: Tensor, width: int) -> Tensor:
    """Some rows of each sentence, (B W',).

    Args:
        places: numbers of the rows within their sentence, (B, W').
        width: W.
    """
    first = torch.arange(len(places), device=places.device)[:, None] * width
    return (places + first).flatten()


class RowBeams(ABC):
    """The part of `stepping.Beams` that all models share which have a row for each hypothesis."""

    beams = 1
    """W of the latest step."""

    def follow(self, tokens: Tensor, parents: Tensor | None) -> None:
        """Take the rows of the hypotheses that the next tokens continue; see `Beams.advance`."""
        if parents is not None:
            self.select_rows(chosen_rows(parents, self.beams))
        self.beams = tokens.size(1)

    def keep(self, sentences: Tensor) -> None:
        """See `Beams`."""
        self.select_rows(all_rows(sentences, self.beams))

    @abstractmethod
    def select_rows(self, rows: Tensor) -> None:
        """Replace the rows (R,) of all tensors by the rows of these numbers, (R',)."""
