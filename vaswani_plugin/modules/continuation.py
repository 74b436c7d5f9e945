"""The decoder-only stack one position at a time, behind prompts that are read once.

It computes what `LanguageModelStack.forward` computes. A prompt's keys and values are the same for
all beams and are never copied; each beam has its own behind them, which follow it about.

Axes: B texts, W beams, R = B W rows, H heads, P prompt length, N positions behind the prompt, D
d_model, K d_k, V d_v.
"""

import math

import torch
from torch import Tensor

from vaswani_plugin.modules.attention import KeyValueCache
from vaswani_plugin.modules.language_model_layers import LanguageModelLayer
from vaswani_plugin.modules.packed_linear import PackedLinear

ROOM = 64
"""Positions by which the caches behind the prompts grow."""


class PackedLanguageModelLayer:
    """A layer's weights, final and laid out for one position at a time."""

    def __init__(self, layer: LanguageModelLayer) -> None:
        own, network = layer.self_attention, layer.feed_forward
        scale = (own.query.out_features // own.heads) ** -0.5  # Eq. 1's, moved into the queries
        parts = [(own.query, scale), (own.key, 1.0), (own.value, 1.0)]
        self.heads = own.heads
        self.sizes = [linear.out_features for linear, _ in parts]
        self.query_key_value = PackedLinear(
            torch.cat([linear.weight * factor for linear, factor in parts]),
            torch.cat([linear.bias * factor for linear, factor in parts]),
        )
        self.output = PackedLinear(own.output.weight, own.output.bias)
        self.self_attention_norm = layer.self_attention_norm.norm
        self.w_1 = PackedLinear(network.w_1.weight, network.w_1.bias, relu=True)
        self.w_2 = PackedLinear(network.w_2.weight, network.w_2.bias)
        self.feed_forward_norm = layer.feed_forward_norm.norm


class Continuation:
    """Decodes behind one batch of prompts; made anew for each.

    Args:
        layers: the packed stack.
        prompts: keys (B, H, P, K) and values (B, H, P, V) of each layer.
        lengths: of the prompts, (B,); what stands behind them is padding.
        window: with r > 0 a position attends to its r latest ones only.
    """

    def __init__(
        self,
        layers: list[PackedLanguageModelLayer],
        prompts: list[KeyValueCache],
        lengths: Tensor,
        window: int = 0,
    ) -> None:
        self.layers = layers
        self.prompts = prompts
        self.lengths = lengths
        self.window = window
        self.own: list[KeyValueCache] = [{} for _ in layers]  # (R, H, room, K), (R, H, room, V)
        self.used = 0  # positions behind the prompts

    def step(self, x: Tensor, parents: Tensor) -> Tensor:
        """Decode the next position of every beam.

        Args:
            x: embedded tokens, (B, W, D).
            parents: (B, W), which of the text's earlier beams each one continues.

        Returns:
            Features (B, W, D).
        """
        texts_and_beams = x.shape[:2]
        self._follow(parents)
        bias = self._prompt_bias()
        x = x.flatten(0, 1)  # (R, D)
        for layer, prompt, own in zip(self.layers, self.prompts, self.own, strict=True):
            query, key, value = (
                part.unflatten(-1, (layer.heads, -1))  # (R, H, K)
                for part in layer.query_key_value(x).split(layer.sizes, -1)
            )
            self._append(own, "key", key)
            self._append(own, "value", value)
            attended = self._attend(query.unflatten(0, texts_and_beams), prompt, own, bias)
            x = layer.self_attention_norm(x + layer.output(attended))
            x = layer.feed_forward_norm(x + layer.w_2(layer.w_1(x)))
        self.used += 1
        return x.unflatten(0, texts_and_beams)

    def keep(self, texts: Tensor) -> None:
        """Go on with these texts only: (B',), numbers among those of the batch."""
        before = len(self.lengths)
        self.lengths = self.lengths[texts]
        self.prompts = [{k: v.index_select(0, texts) for k, v in c.items()} for c in self.prompts]
        if self.used:
            beams = self.own[0]["key"].size(0) // before
            numbers = torch.arange(beams, device=texts.device)
            self._reorder((texts[:, None] * beams + numbers).flatten())

    def _follow(self, parents: Tensor) -> None:
        """Let each row of the caches be what its parent's row was."""
        if not self.used:  # all begin with the prompt alone
            return
        beams = self.own[0]["key"].size(0) // len(parents)
        first = torch.arange(len(parents), device=parents.device)[:, None] * beams
        self._reorder((parents + first).flatten())

    def _reorder(self, rows: Tensor) -> None:
        before = self.own[0]["key"].size(0)
        if len(rows) == before and rows.equal(torch.arange(before, device=rows.device)):
            return
        for own in self.own:
            for name, cache in own.items():
                own[name] = cache.index_select(0, rows)

    def _append(self, own: KeyValueCache, name: str, new: Tensor) -> None:
        """Put (R, H, K) behind what is there."""
        if self.used % ROOM == 0:
            free = new.new_zeros(*new.shape[:2], ROOM, new.size(2))
            own[name] = torch.cat((own[name], free), dim=2) if name in own else free
        own[name][:, :, self.used] = new

    def _prompt_bias(self) -> Tensor | None:
        """(B, 1, 1, P), -inf at padding and beyond the window; None where all is seen."""
        size = self.prompts[0]["key"].size(2)
        place = torch.arange(size, device=self.lengths.device)
        lengths = self.lengths[:, None]
        hidden = place >= lengths  # (B, P)
        if self.window:
            hidden = hidden | (place <= lengths + self.used - self.window)
        if not hidden.any():
            return None
        bias = torch.zeros(hidden.shape, dtype=self.prompts[0]["key"].dtype, device=hidden.device)
        return bias.masked_fill_(hidden, -math.inf)[:, None, None]

    def _attend(
        self, query: Tensor, prompt: KeyValueCache, own: KeyValueCache, bias: Tensor | None
    ) -> Tensor:
        """Eq. 1 of (B, W, H, K), already scaled, over the prompt and what follows it: (R, H V)."""
        begin = max(0, self.used + 1 - self.window) if self.window else 0
        own_key, own_value = (own[name][:, :, begin : self.used + 1] for name in ("key", "value"))
        shape = query.shape[:2]
        of_prompt = query.transpose(1, 2) @ prompt["key"].transpose(2, 3)  # (B, H, W, P)
        if bias is not None:
            of_prompt = of_prompt + bias
        of_own = query.flatten(0, 1)[:, :, None] @ own_key.transpose(2, 3)  # (R, H, 1, N)
        of_own = of_own.squeeze(2).unflatten(0, shape).transpose(1, 2)  # (B, H, W, N)
        weights = torch.cat((of_prompt, of_own), dim=-1).softmax(-1)
        of_prompt, of_own = weights.split((of_prompt.size(-1), of_own.size(-1)), dim=-1)
        heads = (of_prompt @ prompt["value"]).transpose(1, 2).flatten(0, 1)  # (R, H, V)
        of_own = of_own.transpose(1, 2).flatten(0, 1)[:, :, None]  # (R, H, 1, N)
        return (heads + (of_own @ own_value).squeeze(2)).flatten(1)
