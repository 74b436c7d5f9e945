"""The leaves of a decoder with constant weights, for a search; called as the modules themselves.

PyTorch includes oneDNN, which reads weights in its own layout up to three times as fast where there
are few rows, as in the translation of one sentence at a time. The source is projected once; all
beams then attend to it at every step.

Axes: B texts, W beams, H heads, N slots, S source length, D d_model, K d_k, V d_v or outputs.
"""

import copy
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vaswani_plugin.kernels.matrix_library import (
    LEAST_ROWS,
    chosen_library,
    has_onednn,
    onednn_product,
)
from vaswani_plugin.kernels.proof import is_touched
from vaswani_plugin.kernels.slots import ReadMemory, SharedKeysAndValues
from vaswani_plugin.modules.attention import KeysAndValues, MultiHeadAttention, Window
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.layers import AddNorm, FeedForward
from vaswani_plugin.processor import runs_on_host

Attended = tuple[Tensor, Tensor | None]
"""Outputs (B, W, D), and weights (B, H, W, S) if wanted."""
WORTH_PACKING = 2**18
"""Entries of the smallest matrix for which packing pays; with fewer, the call costs more."""


class PackedLinear:
    """x W^T + b, or max(0, x W^T + b), without gradients. W must not change afterwards."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> None:
        self.weight, self.relu = weight.detach(), relu
        self.bias = bias if bias is None else bias.detach()
        fits = runs_on_host(weight.device) and weight.dtype == torch.float32 and has_onednn()
        self.least = math.inf  # number of inputs with which oneDNN multiplies
        if fits and chosen_library() == "onednn":
            self.least = LEAST_ROWS * weight.size(1)
        if fits and weight.numel() >= WORTH_PACKING:
            self.least = 0
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight.contiguous())

    def __call__(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., V), in a new tensor."""
        if x.numel() >= self.least:
            return onednn_product(x, self.weight, self.bias, "relu" if self.relu else "none")
        y = F.linear(x, self.weight, self.bias)
        return y.relu_() if self.relu else y


def packed_by_head(heads: int, *parts: tuple[nn.Linear, float]) -> PackedLinear:
    """Join projections of one input, each with a factor; the outputs of a head are contiguous."""

    def joined(name: str) -> Tensor:
        by_head = [f * getattr(linear, name).unflatten(0, (heads, -1)) for linear, f in parts]
        return torch.cat(by_head, dim=1).flatten(0, 1)

    return PackedLinear(joined("weight"), joined("bias"))


class PackedAddNorm:
    """LayerNorm(x + Sublayer(x)), without dropout."""

    def __init__(self, plain: AddNorm) -> None:
        norm, self.before = plain.norm, plain.before
        self.arguments = norm.normalized_shape, norm.weight.detach(), norm.bias.detach(), norm.eps

    def __call__(self, x: Tensor, sublayer_output: Tensor) -> Tensor:
        """Two (..., D) -> (..., D)."""
        return torch.layer_norm(x + sublayer_output, *self.arguments)


class PackedFeedForward:
    """Eq. 2, without dropout."""

    def __init__(self, plain: FeedForward) -> None:
        self.w_1 = PackedLinear(plain.w_1.weight, plain.w_1.bias, relu=True)
        self.w_2 = PackedLinear(plain.w_2.weight, plain.w_2.bias)

    def __call__(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        return self.w_2(self.w_1(x))


class PackedAttention:
    """Multi-head attention over a `SlotCache`; other calls go to the plain module."""

    def __init__(self, plain: MultiHeadAttention) -> None:
        self.plain, self.heads = plain, plain.heads
        self.d_k = plain.query.out_features // self.heads
        self.output = PackedLinear(plain.output.weight, plain.output.bias)

    @cached_property
    def query_key_value(self) -> PackedLinear:
        """Of self-attention; Eq. 1's 1/sqrt(d_k) is moved into the projection of the queries."""
        parts = (self.plain.query, self.plain.scale), (self.plain.key, 1), (self.plain.value, 1)
        return packed_by_head(self.heads, *parts)

    @cached_property
    def key_value(self) -> PackedLinear:
        """Of cross-attention."""
        return packed_by_head(self.heads, (self.plain.key, 1), (self.plain.value, 1))

    @cached_property
    def query(self) -> PackedLinear:
        """Of cross-attention, with Eq. 1's 1/sqrt(d_k)."""
        return PackedLinear(*self.scaled_query)

    @cached_property
    def scaled_query(self) -> tuple[Tensor, Tensor]:
        """Its weight and bias."""
        weight, bias = self.plain.query.weight, self.plain.query.bias
        return weight.detach() * self.plain.scale, bias.detach() * self.plain.scale

    def __call__(
        self,
        query: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | Window | None = None,
        is_causal: bool = False,
        cache: KeysAndValues | None = None,
        need_weights: bool = False,
    ) -> Attended:
        """See `MultiHeadAttention`; (B, W, D) -> (B, W, D)."""
        if memory is None and isinstance(cache, SharedKeysAndValues):
            if mask is cache.slots.mask and not (is_causal or need_weights):
                return self._attend_to_slots(query, cache), None
        elif isinstance(cache, ReadMemory) and cache.key is None and not is_causal:
            if mask is None or (isinstance(mask, Tensor) and mask.shape[1:3] == (1, 1)):
                if cache.read is None:
                    cache.read = self._read(memory, mask)
                return cache.read.attend(query, mask, need_weights)
        return self.plain(query, memory, mask, is_causal, cache, need_weights)

    def _attend_to_slots(self, query: Tensor, cache: SharedKeysAndValues) -> Tensor:
        texts, beams, _ = query.shape
        projected = self.query_key_value(query).view(texts, beams, self.heads, -1)
        projected = projected.transpose(1, 2)  # (B, H, W, K + K + V)
        past = cache.write(projected[..., self.d_k :])  # (B H, N, K + V)
        queries, bias = projected[..., : self.d_k].flatten(0, 1), cache.slots.bias_of(self.heads)
        weights = torch.baddbmm(bias, queries, past[..., : self.d_k].transpose(1, 2)).softmax(-1)
        attended = torch.bmm(weights, past[..., self.d_k :]).view(texts, self.heads, beams, -1)
        return self.output(attended.transpose(1, 2).reshape(texts, beams, -1))

    def _read(self, encoded: Any, mask: Tensor | None) -> "SourceMemory | FoldedMemory":
        """Project the sources (B, S, D) once."""
        sentences, length, d_model = encoded.shape
        both = self.key_value(encoded).view(sentences, length, self.heads, -1)
        is_short = sentences == 1 and mask is None and self.heads * length <= 2 * d_model
        kind = FoldedMemory if is_short else SourceMemory
        return kind(self, both.transpose(1, 2).flatten(0, 1))  # (B H, S, K + V)


class SourceMemory:
    """Keys and values (B H, S, K + V) of a batch of sources."""

    def __init__(self, attention: PackedAttention, keys_values: Tensor) -> None:
        self.attention, self.keys_values = attention, keys_values
        self.mask: Tensor | None = None  # of the latest call
        self.bias: Tensor | None = None

    def attend(self, x: Tensor, mask: Tensor | None, need_weights: bool) -> Attended:
        """Attend with queries (B, W, D), under a mask (B, 1, 1, S)."""
        heads, d_k = self.attention.heads, self.attention.d_k
        sentences, beams, _ = x.shape
        if mask is not self.mask:
            self.mask, self.bias = mask, None
            if mask is not None:
                hidden = self.keys_values.new_zeros(mask.shape).masked_fill_(~mask, -math.inf)
                self.bias = hidden.expand(-1, heads, -1, -1).flatten(0, 1)  # (B H, 1, S)
        query = self.attention.query(x).view(sentences, beams, heads, d_k)
        query = query.transpose(1, 2).flatten(0, 1)  # (B H, W, K)
        keys, bias = self.keys_values[..., :d_k].transpose(1, 2), self.bias
        scores = torch.bmm(query, keys) if bias is None else torch.baddbmm(bias, query, keys)
        weights = scores.softmax(-1)
        attended = torch.bmm(weights, self.keys_values[..., d_k:]).unflatten(0, (sentences, heads))
        attended = attended.transpose(1, 2).reshape(sentences, beams, -1)  # (B, W, H V)
        shown = weights.unflatten(0, (sentences, heads)) if need_weights else None
        return self.attention.output(attended), shown

    def keep(self, sentences: Tensor) -> None:
        """Keep these sentences only: (B',), their numbers in the batch."""
        by_sentence = self.keys_values.unflatten(0, (-1, self.attention.heads))
        self.keys_values = by_sentence[sentences].flatten(0, 1)


class FoldedMemory:
    """One source, multiplied into the projections: scores = x (W_q K^T), output = weights (V W_o).

    Of a single sentence calls cost more than products: these are two. `keys_values`: (H, S, K + V).
    """

    def __init__(self, attention: PackedAttention, keys_values: Tensor) -> None:
        heads, d_k, output = attention.heads, attention.d_k, attention.plain.output
        keys, values = keys_values[..., :d_k], keys_values[..., d_k:]
        weight, bias = attention.scaled_query
        query = weight.view(heads, d_k, -1)
        self.shape = heads, keys.size(1)
        self.keys = torch.bmm(keys, query).flatten(0, 1).T[None]  # (1, D, H S)
        self.bias = torch.bmm(keys, bias.view(heads, d_k, 1)).flatten()  # (H S,)
        by_head = output.weight.detach().T.reshape(heads, values.size(2), -1)  # (H, V, D)
        # A head's weights sum to 1, so each head adds its part of the bias.
        share = output.bias.detach() / heads
        self.values = torch.baddbmm(share, values, by_head).flatten(0, 1)[None]  # (1, H S, D)

    def attend(self, x: Tensor, mask: Tensor | None, need_weights: bool) -> Attended:
        """See `SourceMemory.attend`; B is 1."""
        scores = torch.baddbmm(self.bias, x, self.keys).view(-1, *self.shape)
        if mask is not None:
            scores = scores.masked_fill(~mask[0], -math.inf)
        weights = scores.softmax(-1)  # (W, H, S)
        shown = weights.transpose(0, 1)[None] if need_weights else None
        return torch.bmm(weights.view(1, x.size(1), -1), self.values), shown

    def keep(self, sentences: Tensor) -> None:
        """See `SourceMemory.keep`: a single sentence always stays."""
        assert len(sentences) == 1


def packed_embedding(plain: Embedding) -> Embedding:
    """Make an embedding whose projection is packed."""
    embedding = copy.copy(plain)
    vars(embedding)["project"] = PackedLinear(plain.weight)
    return embedding


KERNELS: dict[type[nn.Module], Callable[..., Any]] = {
    MultiHeadAttention: PackedAttention,
    FeedForward: PackedFeedForward,
    AddNorm: PackedAddNorm,
    Embedding: packed_embedding,
    nn.Linear: lambda plain: PackedLinear(plain.weight, plain.bias),
}
"""By the leaf; `packed.py` proves them. A subclass counts as the leaf."""


def packed(module: nn.Module, leaves: tuple[type[nn.Module], ...], made: dict[int, Any]) -> Any:
    """Return the kernel of one of `leaves`, or else a shallow copy with kernels for its parts.

    A module that someone hooked on to stays as it is. `made` are those so far, by id.
    """
    if id(module) in made or is_touched(module):
        return made.get(id(module), module)
    kind = next((leaf for leaf in leaves if isinstance(module, leaf)), None)
    if kind is not None and not any(map(is_touched, module.modules())):
        return made.setdefault(id(module), KERNELS[kind](module))
    # PyTorch's `named_children` names a shared part once.
    children = module._modules.items()
    parts: dict[str, Any] = {n: x if x is None else packed(x, leaves, made) for n, x in children}
    if isinstance(module, nn.ModuleList):  # without PyTorch's look for hooks
        free = (isinstance(x, nn.Module) and not is_touched(x) for x in parts.values())
        return [x.forward if f else x for x, f in zip(parts.values(), free, strict=True)]
    copied = made[id(module)] = copy.copy(module)
    # As plain attributes, too: PyTorch takes longer to find a module's parts.
    vars(copied).update(parts, _modules=parts)
    return copied
