"""What a decoder keeps of the positions that it has read, so that it reads only the new ones.

A decoder asks its cache which tokens are new, where they stand and whom they may attend to; each
attention extends the keys and values of its layer. Another class with the same methods may keep
them in another way.

Axes: B batch, T tokens so far, T' new tokens.
"""

from torch import Tensor

from vaswani_plugin.modules.attention import KeysAndValues, Window, past_mask
from vaswani_plugin.modules.embedding import position_ids

Entries = tuple[KeysAndValues | None, KeysAndValues | None]
"""What a layer keeps for its self-attention and its cross-attention."""


class WholeSequence:
    """The cache of a decoder that reads whole sequences: it keeps nothing.

    Attributes:
        length: positions so far, the new ones included.
    """

    def __init__(self) -> None:
        self.length = 0

    def begin(
        self, tokens: Tensor, padding_idx: int, window: int = 0, right_padded: bool = False
    ) -> tuple[Tensor, Tensor, Tensor | Window | None]:
        """Start to read.

        Args:
            tokens: all so far, (B, T).
            padding_idx, window, right_padded: see `past_mask`.

        Returns:
            The new tokens (B, T'), the numbers of their positions, and the mask of `past_mask`.
        """
        past, self.length = self.length, tokens.size(1)
        mask = past_mask(tokens, padding_idx, past, window, right_padded)
        return tokens[:, past:], position_ids(tokens, padding_idx)[:, past:], mask

    def running_sum(self, name: str, amounts: Tensor) -> Tensor:
        """Sum the amounts of the new tokens (B, T'), and those before, up to each: (B, T')."""
        return amounts.cumsum(dim=1)

    def entries(self, layer: int) -> Entries:
        """Return what the layer of this number, from 0, keeps."""
        return None, None


class Cache(WholeSequence):
    """Keys and values of all positions so far; empty before the first call of the decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.layers: list[tuple[KeysAndValues, KeysAndValues]] = []
        self.sums: dict[str, Tensor] = {}  # (B, 1)

    def running_sum(self, name: str, amounts: Tensor) -> Tensor:
        """See `WholeSequence`."""
        sums = amounts.cumsum(dim=1) + self.sums.get(name, 0)
        self.sums[name] = sums[:, -1:]
        return sums

    def entries(self, layer: int) -> tuple[KeysAndValues, KeysAndValues]:
        """See `WholeSequence`."""
        while len(self.layers) <= layer:
            self.layers.append((KeysAndValues(), KeysAndValues()))
        return self.layers[layer]

    def select(self, rows: Tensor) -> None:
        """See `KeysAndValues.select`."""
        self.sums = {name: sums.index_select(0, rows) for name, sums in self.sums.items()}
        for entry in (entry for layer in self.layers for entry in layer):
            entry.select(rows)
