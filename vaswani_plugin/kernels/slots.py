"""The past of all beams of a batch, which share it: a `modules.transformer.WholeSequence`.

Keys and values are stored in slots. A bias, 0 or -inf, says which slots belong to a beam's past.
When the search continues other beams, only the bias is reordered: no key is moved, and beams with a
common past read it once. Slots that no beam sees any more are dropped when the free ones run out.
The beams of a text are its query positions: the decoder computes (B, W, D) as it would (B, T, D).

Axes: B unfinished texts, W beams of each, H heads, N slots, P prompt length, K d_k, V d_v.
"""

import math
from typing import Any

import torch
from torch import Tensor

from vaswani_plugin.modules.attention import KeysAndValues
from vaswani_plugin.modules.transformer import Cache, WholeSequence
from vaswani_plugin.processor import runs_on_host

ROOM, LONG_PAST = 5, 4
"""A clearing moves the whole past, so it leaves free slots for 5 steps, or 1/4 of a long past."""


class SharedKeysAndValues(KeysAndValues):
    """The keys and values of a self-attention in the slots, (B, H, room, K + V)."""

    def __init__(self, slots: "SlotCache") -> None:
        super().__init__()
        self.slots = slots
        self.stored: Any = None  # a tensor once something is written

    def write(self, new: Tensor) -> Tensor:
        """Write the keys and values of a step, (B, H, W, K + V); return all, (B H, N, K + V)."""
        beams, used = new.size(2), self.slots.bias.size(2)
        if self.stored is None:
            self.stored = self.slots.with_room(new[:, :, :0])
        self.stored[:, :, used - beams : used] = new
        return self.stored.flatten(0, 1)[:, :used]

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """See `KeysAndValues`; the positions are the slots in use."""
        past = self.write(torch.cat((key, value), dim=-1)).unflatten(0, key.shape[:2])
        return past.split((key.size(-1), value.size(-1)), dim=-1)


class ReadMemory(KeysAndValues):
    """The keys and values of a cross-attention, also as its kernel reads them: see there."""

    read: Any = None

    def select(self, rows: Tensor) -> None:
        super().select(rows)
        if self.read is not None:
            self.read.keep(rows)


class SlotCache(WholeSequence):
    """The cache of one batch in every layer.

    `lengths` (B,) are the texts' tokens so far, `past` what a decoder has kept of these, padded on
    the right; `beam` is the greatest W, `most` the number of positions. The next tokens
    continue the beams `parents` (B, W); None: each continues itself. `bias` (B, W, N) is 0 at slots
    that a beam sees, -inf at others; `mask` is the same as a mask.
    """

    def __init__(
        self, lengths: Tensor, beam: int, most: int, dtype: torch.dtype, past: Cache
    ) -> None:
        super().__init__()
        self.least_room, self.most = ROOM * beam, most
        self.position = lengths  # (B,), of the next token
        self.parents: Tensor | None = None
        self.layers: list[tuple[SharedKeysAndValues, ReadMemory]] = []
        self.sums: dict[str, Tensor] = {}
        self.longest = size = past.length
        places = torch.arange(size, device=lengths.device)
        hidden = (places >= lengths[:, None])[:, None]  # (B, 1, P)
        bias = torch.zeros(hidden.shape, dtype=dtype, device=lengths.device)
        self.bias = bias.masked_fill_(hidden, -math.inf)
        self.capacity = size + self._room(size)
        self.own_slots = self.bias.new_empty(0, 0)  # (W, W), the bias of a step's own slots
        self.by_head: dict[int, Tensor] = {}
        for number, (entry, _) in enumerate(past.layers):
            both: Any = entry.key, entry.value
            both = torch.cat(both, dim=-1).detach()
            self.entries(number)[0].stored = self.with_room(both)

    def begin(self, tokens: Tensor, *unused: object) -> tuple[Tensor, Tensor, Tensor]:
        """See `WholeSequence`: a new slot for each of the tokens (B, W), which are all new."""
        beams = tokens.size(1)
        if self.parents is not None:
            past = self.parents[:, :, None].expand(-1, -1, self.bias.size(2))
            self.bias = self.bias.gather(1, past)
        if self.bias.size(2) + beams > self.capacity:
            if runs_on_host(self.bias.device):
                self._clear()
            else:  # clearing would wait for the device
                used = self.bias.size(2)
                self.capacity = used + max(self._room(used), used)
                for entry, _ in self.layers:
                    entry.stored = self.with_room(entry.stored[:, :, :used])
        if self.own_slots.size(0) != beams:
            self.own_slots = self.bias.new_full((beams, beams), -math.inf).fill_diagonal_(0)
        self.bias = torch.cat((self.bias, self.own_slots.expand(self.bias.size(0), -1, -1)), dim=2)
        self.by_head.clear()
        self.mask = self.bias.eq(0)[:, None]  # (B, 1, W, N)
        positions = self.position[:, None]
        if self.longest >= self.most:  # texts at the limit are done, but may still be in the batch
            positions = positions.clamp(max=self.most - 1)
        self.longest += 1
        self.position = self.position + 1
        return tokens, positions, self.mask

    def bias_of(self, heads: int) -> Tensor:
        """Return the bias for each head, (B H, W, N)."""
        if heads not in self.by_head:
            self.by_head[heads] = self.bias[:, None].expand(-1, heads, -1, -1).flatten(0, 1)
        return self.by_head[heads]

    def running_sum(self, name: str, amounts: Tensor) -> Tensor:
        """See `WholeSequence`; a sum for each beam."""
        if (before := self.sums.get(name)) is not None:
            before = before if self.parents is None else before.gather(1, self.parents)
            amounts = amounts + before
        self.sums[name] = amounts
        return amounts

    def entries(self, layer: int) -> tuple[SharedKeysAndValues, ReadMemory]:
        while len(self.layers) <= layer:
            self.layers.append((SharedKeysAndValues(self), ReadMemory()))
        return self.layers[layer]

    def keep(self, texts: Tensor) -> None:
        """Keep these texts only: (B',), their numbers in the batch."""
        self.position = self.position.index_select(0, texts)
        self.sums = {name: sums.index_select(0, texts) for name, sums in self.sums.items()}
        for _, memory in self.layers:
            memory.select(texts)
        self._clear(texts)

    def _room(self, used: int) -> int:
        return max(self.least_room, used // LONG_PAST)

    def with_room(self, stored: Tensor) -> Tensor:
        """Copy used slots (B, H, N, K + V) to the front of as many as there may be."""
        cache = stored.new_empty(*stored.shape[:2], self.capacity, stored.size(3))
        cache[:, :, : stored.size(2)] = stored
        return cache

    def _clear(self, texts: Tensor | None = None) -> None:
        """Move the slots that some beam sees to the front of the caches, before free slots."""
        if texts is None:
            texts = torch.arange(self.bias.size(0), device=self.bias.device)
        bias = self.bias.index_select(0, texts)
        seen = bias.gt(-math.inf).any(dim=1)  # (B', N)
        used = int(seen.sum(dim=1).max()) if seen.numel() else 0
        slots = seen.byte().argsort(dim=1, descending=True, stable=True)[:, :used]
        self.bias = bias.gather(2, slots[:, None].expand(-1, bias.size(1), -1))
        # The free slots may hold anything: copies of slot 0 fill them in the same pass.
        slots = torch.cat((slots, slots.new_zeros(len(texts), self._room(used))), dim=1)
        before, self.capacity = self.capacity, slots.size(1)
        rows: dict[int, Tensor] = {}
        for entry, _ in self.layers:
            cache, heads = entry.stored, entry.stored.size(1)
            if heads not in rows:
                block = texts[:, None] * heads + torch.arange(heads, device=slots.device)  # (B', H)
                rows[heads] = (block * before)[:, :, None] + slots[:, None]  # (B', H, N')
            moved = cache.flatten(0, 2).index_select(0, rows[heads].flatten())
            entry.stored = moved.view(*rows[heads].shape, -1)
