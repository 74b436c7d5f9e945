"""The self-attention cache of a search, which the beams of a text share.

A text's keys and values are stored in slots that all of its beams share. A bias, 0 or -inf, says
which slots belong to a beam's past. When the search continues other beams, only the bias is
reordered: no key is moved, and beams with a common past read it once. Slots that no beam sees any
more are dropped when the free slots run out.

Axes: B texts, W beams, H heads, N slots, P positions at the start, K d_k, V d_v.
"""

import math

import torch
from torch import Tensor

from vaswani_plugin.devices import runs_on_host

ROOM = 5
"""Steps for which each clearing leaves free slots, where the past is short."""
LONG_PAST = 4
"""After clearing a long past, free slots number 1/4 of it: each clearing moves the whole past, so
it must be rare."""


class BeamPast:
    """The slots of one batch, in every layer.

    Args:
        start: of each layer the concatenated keys and values that all beams of a text see,
            (B, H, P, K + V); P may be 0.
        lengths: of the texts, (B,); later positions in `start` are padding.
        beam: W, the greatest number of beams of a text.
        window: with r > 0 a position attends only to the r latest positions.
    """

    def __init__(self, start: list[Tensor], lengths: Tensor, beam: int, window: int) -> None:
        texts, self.heads, size, _ = start[0].shape
        self.window = window
        self.least_room = ROOM * beam
        self.position = lengths  # (B,), of the next token
        # One tensor per layer, and a spare one into which a layer's slots are copied.
        self.caches = [self._with_room(layer) for layer in start]
        self.spare = start[0].new_empty(0)
        places = torch.arange(size, device=lengths.device)
        hidden = (places >= lengths[:, None])[:, None]  # (B, 1, P)
        self.bias = start[0].new_zeros(hidden.shape).masked_fill_(hidden, -math.inf)  # (B, W, N)
        self.own_slots = start[0].new_empty(0, 0)  # (W, W), the bias of a step's own slots
        self.slot_positions = places.expand(texts, -1)  # (B, N)

    def _room(self, used: int) -> int:
        return max(self.least_room, used // LONG_PAST)

    def _make_room(self) -> None:
        """Clear the slots; on a GPU allocate more instead, since clearing waits for the device."""
        if runs_on_host(self.bias.device):
            self._clear()
        else:
            used = self.bias.size(2)
            self.caches = [self._with_room(cache[:, :, :used], used) for cache in self.caches]

    def _with_room(self, start: Tensor, least: int = 0) -> Tensor:
        texts, heads, size, width = start.shape
        cache = start.new_empty(texts, heads, size + max(self._room(size), least), width)
        cache[:, :, :size] = start
        return cache

    def open_slots(self, beams: int, parents: Tensor | None) -> Tensor:
        """Add a slot at the end for each beam's new position.

        `parents` (B, W) are the beams that the W beams continue; None: each continues itself.
        Returns the bias of the scores, (B H, W, N): 0 at slots that a beam sees, -inf at others.
        """
        if parents is not None:
            past = parents[:, :, None].expand(-1, -1, self.bias.size(2))
            self.bias = self.bias.gather(1, past)
        if self.bias.size(2) + beams > self.caches[0].size(2):
            self._make_room()
        texts = self.bias.size(0)
        if self.window:
            far = self.slot_positions <= self.position[:, None] - self.window
            self.bias.masked_fill_(far[:, None], -math.inf)  # and they stay hidden in later steps
            new = self.position[:, None].expand(-1, beams)
            self.slot_positions = torch.cat((self.slot_positions, new), dim=1)
        if self.own_slots.size(0) != beams:
            self.own_slots = self.bias.new_full((beams, beams), -math.inf).fill_diagonal_(0)
        self.bias = torch.cat((self.bias, self.own_slots.expand(texts, -1, -1)), dim=2)
        self.position = self.position + 1
        return self.bias[:, None].expand(-1, self.heads, -1, -1).flatten(0, 1)

    def keep(self, texts: Tensor) -> None:
        """Keep these texts only: (B',), their numbers in the batch."""
        self.position = self.position.index_select(0, texts)
        self._clear(texts)

    def _clear(self, texts: Tensor | None = None) -> None:
        """Move the slots that some beam sees to the front of the caches, before free slots."""
        if texts is None:
            texts = torch.arange(self.bias.size(0), device=self.bias.device)
        bias = self.bias.index_select(0, texts)
        seen = bias.gt(-math.inf).any(dim=1)  # (B', N)
        used = int(seen.sum(dim=1).max()) if seen.numel() else 0
        slots = seen.byte().argsort(dim=1, descending=True, stable=True)[:, :used]
        self.bias = bias.gather(2, slots[:, None].expand(-1, bias.size(1), -1))
        if self.window:
            self.slot_positions = self.slot_positions.index_select(0, texts).gather(1, slots)
        # The free slots may hold anything: copies of slot 0 fill them in the same pass.
        slots = torch.cat((slots, slots.new_zeros(len(texts), self._room(used))), dim=1)
        heads = torch.arange(self.heads, device=slots.device)
        block = texts[:, None] * self.heads + heads  # (B', H)
        rows = (block * self.caches[0].size(2))[:, :, None] + slots[:, None]  # (B', H, N')
        flat = rows.flatten()
        for number, cache in enumerate(self.caches):
            entries = len(flat) * cache.size(3)
            if self.spare.numel() < entries:
                self.spare = cache.new_empty(entries)
            moved = self.spare[:entries].view(len(flat), -1)
            torch.index_select(cache.flatten(0, 2), 0, flat, out=moved)
            self.spare, self.caches[number] = cache.view(-1), moved.view(*rows.shape, -1)
