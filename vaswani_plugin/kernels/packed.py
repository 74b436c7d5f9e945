"""The search of `modules.transformer.Decoder` or `LanguageModel` with kernels for its leaves.

A decoder's shallow copy has kernels in the places of its leaves (`packed_layers.py`), and the past
of all beams in slots (`slots.py`); its `forward` is the decoder's own.
Gain: `vaswani_tiny` decodes 2.1 times as fast in batches, 1.3 times one sentence at a time
(Multi30k, beam 4, one thread of an Intel Xeon with AVX-512).

Once for each kind of decoder some steps of beams are compared with the plain forward pass over
whole sequences. If they differ, each leaf's kernel is tried alone, and the leaves at fault stay as
they are written. If the slots alone make a difference, as a restricted self-attention would, the
decoder reads with a cache that concatenates.

Axes: B unfinished texts, W beams of each, S source length, P prompt length, T tokens so far,
D d_model, V vocabulary.
"""

import copy
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn

from vaswani_plugin.kernels.packed_layers import KERNELS, packed
from vaswani_plugin.kernels.proof import is_proven, options, structure, twin
from vaswani_plugin.kernels.slots import SlotCache
from vaswani_plugin.modules.attention import past_mask
from vaswani_plugin.modules.cache import Cache
from vaswani_plugin.modules.transformer import Decoder, LanguageModel, Memory, Output

Leaves = tuple[type[nn.Module], ...]
LONG = 512
"""Positions of a past in a proof of masks."""
MOST_ROWS = 2048
"""Of an embedding in a proof: random numbers for a whole vocabulary would take longer."""


class Packed:
    """A decoder's weights, packed for search. When they change, pack them again.

    `kind` is the decoder's `structure`.

    Attributes:
        decoder: with kernels; None: beams in slots don't get what the decoder computes.
    """

    def __init__(self, decoder: Decoder | LanguageModel, kind: Hashable) -> None:
        leaves = proven_leaves(decoder, kind)
        self.decoder: Any = None if leaves is None else packed(decoder, leaves, {})

    def start(self, memory: Memory, beam: int, with_attention: bool) -> "DecoderBeams":
        """Start to decode a batch; `beam` is the greatest W. See `search.models.Start`."""
        return DecoderBeams(self.decoder, memory, beam, with_attention)

    def go_on(self, prompts: Tensor, lengths: Tensor, beam: int) -> "TextBeams":
        """Start to continue a batch of prompts (B, P), padded on the right, none of length 0."""
        return TextBeams(self.decoder, prompts, lengths, beam)


def composition(decoder: Decoder | LanguageModel) -> Callable[..., Output]:
    """Return the `forward` of `modules`, which an adapter to another library has as `read`."""
    return getattr(decoder, "read", decoder)


class PackedBeams:
    """The hypotheses of one batch, without gradients; see `search.models.Beams`."""

    features: Tensor  # (B, W, D)

    def __init__(self, decoder: Decoder | LanguageModel, cache: SlotCache) -> None:
        self.read, self.project, self.cache = composition(decoder), decoder.project, cache

    def logits(self, sentences: slice) -> Tensor:
        """Return the logits of the next token, (b, W, V), in a new tensor."""
        return self.project(self.features[sentences])


class DecoderBeams(PackedBeams):
    """The hypotheses of a decoder."""

    def __init__(self, decoder: Decoder, memory: Memory, beam: int, with_attention: bool) -> None:
        self.memory = memory
        features = memory.features
        lengths = torch.zeros(len(features), dtype=torch.long, device=features.device)
        most = decoder.positions.max_positions
        super().__init__(decoder, SlotCache(lengths, beam, most, features.dtype))
        self.layer = len(decoder.layers) - 1 if with_attention else None

    def step(self, tokens: Tensor, parents: Tensor | None) -> Tensor | None:
        """Append a token (B, W) to every hypothesis; returns the attention (B, W, S) if wanted."""
        self.cache.parents = parents
        output = self.read(tokens, self.memory, cache=self.cache, alignment_layer=self.layer)
        self.features = output.features
        return None if self.layer is None else output.cross_weights[0].mean(dim=1)

    def keep(self, sentences: Tensor) -> None:
        """Keep these sentences only: (B',), their numbers in the batch."""
        self.memory = self.memory.select(sentences)
        self.cache.keep(sentences)


class TextBeams(PackedBeams):
    """The continuations by a language model."""

    def __init__(self, decoder: LanguageModel, prompts: Tensor, lengths: Tensor, beam: int) -> None:
        past = Cache()
        # A prompt's last token does not attend to the padding after it.
        features = composition(decoder)(prompts, past, right_padded=True).features
        most = decoder.positions.max_positions
        super().__init__(decoder, SlotCache(lengths, beam, most, features.dtype, past))
        last = torch.arange(len(prompts), device=prompts.device), lengths - 1
        self.features = features[last][:, None]  # (B, 1, D)

    def step(self, tokens: Tensor, parents: Tensor | None) -> None:
        """Append a token (B, W) to every continuation; at first the prompts' last tokens count."""
        if parents is not None:
            self.cache.parents = parents
            self.features = self.read(tokens, self.cache).features

    def keep(self, texts: Tensor) -> None:
        """Keep these texts only: (B',), their numbers in the batch."""
        self.features = self.features[texts]
        self.cache.keep(texts)


def proven_leaves(decoder: Decoder | LanguageModel, kind: Hashable) -> Leaves | None:
    """Return the leaves whose kernels compute the same; None where not even the slots do."""
    every: Leaves = (*KERNELS,)
    if next(decoder.parameters()).is_meta:
        return every

    def are_proven(leaves: Leaves, name: str | None) -> bool:
        def runs() -> Iterator[Callable[[], list[Tensor]]]:
            plain = _short_twin(decoder)
            yield partial(_steps, plain, None)
            yield partial(_steps, plain, packed(plain, leaves, {}))

        file = "packed_layers.py" if leaves else "slots.py"
        return is_proven(name, (kind, leaves), file, runs, lambda run: run())

    if are_proven(every, None):
        return every
    if not are_proven((), type(decoder).__name__):
        return None
    parts = [*decoder.modules()]
    names = {leaf: {type(x).__name__ for x in parts if isinstance(x, leaf)} for leaf in every}
    return tuple(x for x in every if are_proven((x,), ", ".join(sorted(names[x])) or None))


def _short_twin(decoder: Decoder | LanguageModel) -> Any:
    """Copy a decoder with random weights, one layer of each kind, and some of its vocabulary."""
    short = copy.copy(decoder)
    layers = {structure(layer): layer for layer in decoder.layers}.values()
    vars(short)["_modules"] = {**decoder._modules, "layers": nn.ModuleList(layers)}
    rows = {id(x.weight): MOST_ROWS for x in (decoder.embedding, decoder.projection)}
    return twin(short, rows, on_cpu=False)


def _steps(plain: Any, decoder: Any) -> list[Tensor]:
    """The results of some steps of beams; without a packed decoder the plain one's.

    That reads each hypothesis from its start. Sources are two, one padded, and a lone one. In slots
    the latest position sees all before: the last result is whom it may see after a long past.
    """
    weight, read, results = plain.embedding.weight, composition(plain), []
    steps = min(4, plain.positions.max_positions)
    tokens = torch.randint(0, len(weight) - 1, (2, 3, steps + 1), device="cpu")
    tokens = (tokens + tokens.ge(plain.padding_idx)).to(weight.device)
    parents = torch.tensor([[0, 0, 2], [2, 1, 0]], device="cpu").to(weight.device)
    encoded = torch.randn(2, 5, weight.size(1), device="cpu").to(weight)
    visible = torch.tensor([[True] * 5, [True] * 3 + [False] * 2], device="cpu")
    visible = visible[:, None, None].to(weight.device)
    for count, mask in ((2, visible), (1, None)):
        memory, beams, alignment = None, None, {}
        hypotheses, chosen = tokens[:count, :1, :1], None
        if isinstance(plain, Decoder):
            source = torch.zeros_like(encoded[:count, :, 0], dtype=torch.long)
            memory = plain.remember(source, encoded[:count], mask)
            alignment = {"alignment_layer": len(plain.layers) - 1}
            beams = decoder and DecoderBeams(decoder, memory, 3, True)
        elif decoder is not None:
            beams = TextBeams(decoder, hypotheses[:, 0], hypotheses.new_ones(count), 3)
        for step in range(steps):
            shape = hypotheses.shape[:2]
            if beams is not None:
                weights = beams.step(hypotheses[:, :, -1], chosen)
                results += [beams.features, beams.logits(slice(None)), weights]
            else:
                rows = torch.arange(count, device=weight.device).repeat_interleave(shape[1])
                given = () if memory is None else (memory.select(rows),)
                output = read(hypotheses.flatten(0, 1), *given, right_padded=True, **alignment)
                features = output.features[:, -1].unflatten(0, shape)
                weights = [x.mean(dim=1)[:, -1].unflatten(0, shape) for x in output.cross_weights]
                results += [features, plain.project(features), *(weights or [None])]
            chosen = parents[:count] if step else torch.zeros_like(parents[:count])
            past = hypotheses.gather(1, chosen[:, :, None].expand(-1, -1, step + 1))
            hypotheses = torch.cat((past, tokens[:count, :, step + 1, None]), dim=2)
    long = torch.full((1, LONG), (plain.padding_idx + 1) % len(weight), device="cpu")
    mask = past_mask(long, plain.padding_idx, LONG - 1, plain.window, right_padded=True)
    return [*results, mask.float() if decoder is None else torch.ones(1, LONG, device="cpu")]


class Packing:
    """The packed weights of a decoder, kept as long as they are up to date."""

    def __init__(self) -> None:
        # Threads replace them together: parameters, their states, and the weights packed of them.
        self._kept: tuple[list[Tensor], Hashable, Packed] | None = None

    def of(self, decoder: nn.Module, final: bool) -> Packed | None:
        """Return the packed weights, packed again if needed; None if `forward` must decode.

        `final`: nobody writes through `parameter.data` any more, as fairseq's own optimizers do. No
        version counts such writes, so before that the weights are packed at each call.
        """
        if not isinstance(decoder, (Decoder, LanguageModel)) or decoder.window:
            return None
        now = list(decoder.parameters())
        # PyTorch has no public name for the version, which autograd's own checks rely on.
        states = options(decoder), *((p._version, p.data_ptr(), p.dtype) for p in now)
        if final and self._kept is not None:
            parameters, before, packed = self._kept
            if states == before and all(map(is_, now, parameters)):
                return packed if packed.decoder is not None else None
        packed = Packed(decoder, structure(decoder))
        self._kept = now, states, packed
        return packed if packed.decoder is not None else None
