"""Decides which models the search decodes with packed weights, and when to pack them again.

A generator owns the packed copies, and makes them again when a parameter has changed. A model that
differs from our modules, by a hook, an adapter or another class, decodes with its own `forward`.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from vaswani_plugin.modules.attention import MultiHeadAttention
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.feed_forward import FeedForward
from vaswani_plugin.modules.language_model import LanguageModel
from vaswani_plugin.modules.layers import AddNorm, DecoderLayer, EncoderLayer
from vaswani_plugin.modules.parser import NextWord
from vaswani_plugin.modules.positions import LearnedPositions, SinusoidalPositions
from vaswani_plugin.modules.transformer import Decoder
from vaswani_plugin.search.decoder_beams import PackedDecoder
from vaswani_plugin.search.language_beams import PackedLanguageModel
from vaswani_plugin.text.fork_lock import ForkLock

Packed = PackedDecoder | PackedLanguageModel

PLAIN = {
    *(nn.Linear, nn.LayerNorm, nn.ModuleList, Embedding, LearnedPositions, SinusoidalPositions),
    *(MultiHeadAttention, FeedForward, AddNorm, EncoderLayer, DecoderLayer, NextWord),
}
"""The classes that the packed layers replace. A kernel's `equals` is the class that it replaces."""


class _Snapshot(NamedTuple):
    """The state of a parameter at one time, to detect changes.

    Attributes:
        parameter: the parameter.
        version: counts writes to it; writes through `parameter.data` are not counted.
        place: address of its memory.
        dtype: its type.
        sums: of all elements and of every second element; empty where weights are final.
    """

    parameter: Tensor
    version: int
    place: int
    dtype: torch.dtype
    sums: list[float]

    @classmethod
    def of(cls, parameter: Tensor, sums: list[float]) -> "_Snapshot":
        # PyTorch has no public name for the version, which autograd's own checks rely on.
        return cls(parameter, parameter._version, parameter.data_ptr(), parameter.dtype, sums)

    def is_same(self, other: "_Snapshot") -> bool:
        return self.parameter is other.parameter and self[1:] == other[1:]


def _snapshots(decoder: nn.Module) -> list[_Snapshot]:
    """Return a snapshot of every parameter; sums, where needed, are read in a single transfer."""
    parameters = list(decoder.parameters())
    sums: list[list[float]] = [[] for _ in parameters]
    if not getattr(decoder, "weights_are_final", False):
        flat = [parameter.detach().flatten() for parameter in parameters]
        parts = [part.sum(dtype=torch.float64) for x in flat for part in (x, x[::2])]
        sums = torch.stack(parts).view(-1, 2).tolist()
    return [_Snapshot.of(p, own) for p, own in zip(parameters, sums, strict=True)]


class PackedWeights:
    """The packed weights of some models, kept as long as they are up to date.

    fairseq's own optimizers write through `parameter.data`, which the version does not count. So
    the parameters are also summed at each call, until fairseq's commands declare the weights final
    (`make_generation_fast_`).
    """

    def __init__(self) -> None:
        self._packed: dict[nn.Module, tuple[list[_Snapshot], Packed]] = {}
        self._lock = ForkLock()

    def of(self, decoder: nn.Module) -> Packed | None:
        """Return the packed weights, packed again if needed; None if `forward` must decode."""
        if not is_packable(decoder):
            return None
        with self._lock:
            now = _snapshots(decoder)
            before, packed = self._packed.get(decoder, ([], None))
            same = len(before) == len(now)
            if not (same and all(old.is_same(new) for old, new in zip(before, now, strict=True))):
                kind = PackedDecoder if isinstance(decoder, Decoder) else PackedLanguageModel
                packed = kind(decoder)
                self._packed[decoder] = now, packed
            return packed


def is_packable(decoder: object) -> bool:
    """Return whether the packed layers compute the same as the decoder's own `forward`."""
    if not isinstance(decoder, (Decoder, LanguageModel)):
        return False
    parts = [part for part in decoder.modules() if part is not decoder]
    return all(getattr(type(part), "equals", type(part)) in PLAIN for part in parts) and not any(
        # PyTorch has no public name for a module's hooks.
        part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part)
        for part in (decoder, *parts)
    )
