"""The search of `modules.transformer.Decoder` or `DecoderOnly` with kernels for its leaves.

A decoder's shallow copy has kernels in the places of its leaves (`packed_layers.py`), and the past
of all beams in slots (`slots.py`); its `forward` is the decoder's own. Gain: `vaswani_tiny` decodes
2.1 times as fast in batches, 1.3 times one sentence at a time (beam 4, one thread, Intel AVX-512).

Once for each kind of decoder some steps of beams are compared with the plain forward pass over
whole sequences. If they differ, each leaf's kernel is tried alone, and the leaves at fault stay as
they are written. If the slots alone make a difference, the search reads with a plain cache.

Axes: B unfinished texts, W beams, S source, P prompt, T tokens so far, D d_model, V vocabulary.
"""

import copy
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn

from vaswani_plugin.kernels.packed_layers import KERNELS, packed
from vaswani_plugin.kernels.proof import LARGE, equations, is_proven, options, structure, twin
from vaswani_plugin.kernels.slots import SlotCache
from vaswani_plugin.modules.attention import past_mask
from vaswani_plugin.modules.transformer import Cache, Decoder, DecoderOnly, Memory, Output

Leaves = tuple[type[nn.Module], ...]
LONG, MOST_ROWS = 512, 2048
"""In a proof: positions of a past for masks, and rows of an embedding."""


class Packed:
    """A decoder with kernels for its leaves, for a search; new weights need a new one."""

    def __init__(self, decoder: Any) -> None:
        self.decoder = decoder

    def start(self, memory: Memory, beam: int, with_attention: bool) -> "PackedBeams":
        """Start to decode a batch; `beam` is the greatest W. See `search.models.Start`."""
        lengths = memory.features.new_zeros(len(memory.features), dtype=torch.long)
        most, dtype = self.decoder.positions.max_positions, memory.features.dtype
        layer = len(self.decoder.layers) - 1 if with_attention else None
        arguments = {"memory": memory, "alignment_layer": layer}
        cache = SlotCache(lengths, beam, most, dtype, Cache())
        return PackedBeams(self.decoder, cache, None, arguments)

    def go_on(self, prompts: Tensor, lengths: Tensor, beam: int) -> "PackedBeams":
        """Start to continue a batch of prompts (B, P), padded on the right, none of length 0."""
        past, most = Cache(), self.decoder.positions.max_positions
        # A prompt's last token does not attend to the padding after it.
        features = composition(self.decoder)(prompts, past, right_padded=True).features
        cache = SlotCache(lengths, beam, most, features.dtype, past)
        last = torch.arange(len(prompts), device=prompts.device), lengths - 1
        return PackedBeams(self.decoder, cache, features[last][:, None], {})


def composition(decoder: Any) -> Callable[..., Output]:
    """Return the `forward` of `modules`, which an adapter to another library has as `read`."""
    return getattr(decoder, "read", decoder)


class PackedBeams:
    """The hypotheses of one batch; see `search.models.Beams`. `arguments` are more of `forward`.

    `features` (B, 1, D), or None, are those of prompts, whose last tokens the first step brings.
    """

    def __init__(
        self, decoder: Any, cache: SlotCache, features: Any, arguments: dict[str, Any]
    ) -> None:
        self.read, self.project = composition(decoder), decoder.project
        self.cache, self.features, self.arguments = cache, features, arguments

    def step(self, tokens: Tensor, parents: Tensor | None) -> Tensor | None:
        """Append a token (B, W) to every hypothesis; returns the attention (B, W, S) if wanted."""
        if parents is None and self.features is not None:
            return None
        self.cache.parents = parents
        self.features, _, weights = self.read(tokens, cache=self.cache, **self.arguments)
        return weights[0].mean(dim=1) if weights else None

    def logits(self, sentences: slice) -> Tensor:
        return self.project(self.features[sentences])

    def keep(self, sentences: Tensor) -> None:
        if self.arguments:
            self.arguments["memory"] = self.arguments["memory"].select(sentences)
        self.features = self.features[sentences]
        self.cache.keep(sentences)


def proven_leaves(decoder: Decoder | DecoderOnly, kind: Hashable) -> Leaves | None:
    """Return the leaves whose kernels compute the same; None where not even the slots do."""
    every: Leaves = (*KERNELS,)
    if next(decoder.parameters()).is_meta:
        return every

    def are_proven(leaves: Leaves, name: str | None) -> bool:
        def runs() -> Iterator[Callable[[], list[Tensor]]]:
            # random weights, one layer of each kind, and some of the vocabulary
            short = copy.copy(decoder)
            layers = {structure(layer): layer for layer in decoder.layers}.values()
            vars(short)["_modules"] = {**decoder._modules, "layers": nn.ModuleList(layers)}
            rows = {id(x.weight): MOST_ROWS for x in (decoder.embedding, decoder.projection)}
            plain = twin(short, rows, on_cpu=False)
            yield partial(_steps, plain, None)
            yield partial(_steps, plain, packed(plain, leaves, {}))

        file = "packed_layers.py" if leaves else "slots.py"
        return is_proven(name, (kind, leaves), file, runs, lambda run: run())

    if are_proven(every, None):
        return every
    if not are_proven((), type(decoder).__name__):
        return None
    names = {k: {type(x).__name__ for x in decoder.modules() if isinstance(x, k)} for k in every}
    return tuple(x for x in every if are_proven((x,), ", ".join(sorted(names[x])) or None))


def _steps(plain: Any, decoder: Any) -> list[Tensor]:
    """The results of some steps of beams, or of the plain decoder from the start at each step."""
    results: list[Any] = []
    weight, read = plain.embedding.weight, composition(plain)
    steps = min(4, plain.positions.max_positions)
    tokens = torch.randint(0, len(weight) - 1, (2, 3, steps + 1), device="cpu")
    tokens = (tokens + tokens.ge(plain.padding_idx)).to(weight.device)
    parents = torch.tensor([[0, 0, 2], [2, 1, 0]], device="cpu").to(weight.device)
    encoded = torch.randn(2, 5, weight.size(1), device="cpu").to(weight)
    visible = torch.tensor([[True] * 5, [True] * 3 + [False] * 2], device="cpu")
    visible = visible[:, None, None].to(weight.device)
    for count, mask in ((2, visible), (1, None)):  # two sources, one padded, and a lone one
        chosen: Tensor | None = None
        hypotheses, memory = tokens[:count, :1, :1], None
        if isinstance(plain, Decoder):
            source = torch.zeros_like(encoded[:count, :, 0], dtype=torch.long)
            memory = plain.remember(source, encoded[:count], mask)
        if decoder is not None and memory is not None:
            beams = Packed(decoder).start(memory, 3, True)
        elif decoder is not None:
            beams = Packed(decoder).go_on(hypotheses[:, 0], hypotheses.new_ones(count), 3)
        for step in range(steps):
            shape = hypotheses.shape[:2]
            if decoder is not None:
                attention = beams.step(hypotheses[:, :, -1], chosen)
                results += [beams.features, beams.project(LARGE * beams.features), attention]
            else:
                rows = torch.arange(count, device=weight.device).repeat_interleave(shape[1])
                arguments: Any = {"alignment_layer": len(plain.layers) - 1} if memory else {}
                arguments |= {"memory": memory.select(rows)} if memory else {}
                output = read(hypotheses.flatten(0, 1), right_padded=True, **arguments)
                features = output.features[:, -1].unflatten(0, shape)
                weights = [x.mean(dim=1)[:, -1].unflatten(0, shape) for x in output.cross_weights]
                results += [features, plain.project(LARGE * features), *(weights or [None])]
            chosen = parents[:count] if step else torch.zeros_like(parents[:count])
            past = hypotheses.gather(1, chosen[:, :, None].expand(-1, -1, step + 1))
            hypotheses = torch.cat((past, tokens[:count, :, step + 1, None]), dim=2)
    # Whom the latest position sees after a long past: in slots, all before.
    long = torch.full((1, LONG), (plain.padding_idx + 1) % len(weight), device="cpu")
    seen: Any = past_mask(long, plain.padding_idx, LONG - 1, plain.window, right_padded=True)
    return [*results, seen.float() if decoder is None else torch.ones(1, LONG, device="cpu")]


class Packing:
    """The packed weights of a decoder, kept as long as they are up to date."""

    def __init__(self) -> None:
        # Threads replace them together: parameters, their states, and the weights packed of them.
        self._kept: tuple[list[Any], Hashable, Packed | None] = [], None, None

    def of(self, decoder: nn.Module, final: bool) -> Packed | None:
        """Return the packed weights, packed again if needed; None if `forward` must decode.

        `final`: nobody writes through `parameter.data` any more, as fairseq's own optimizers do. No
        version counts such writes, so before that the weights are packed at each call.
        """
        if not isinstance(decoder, (Decoder, DecoderOnly)) or decoder.window:
            return None
        now, (parameters, before, packed_now) = [*decoder.parameters()], self._kept
        # PyTorch has no public name for the version, which autograd's own checks rely on.
        states = options(decoder), equations(), *((p._version, p.data_ptr(), p.dtype) for p in now)
        if not (final and states == before and all(map(is_, now, parameters))):
            leaves = proven_leaves(decoder, structure(decoder))
            packed_now = None if leaves is None else Packed(packed(decoder, leaves, {}))
            self._kept = now, states, packed_now
        return packed_now
