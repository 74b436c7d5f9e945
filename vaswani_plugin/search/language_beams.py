"""The continuations of a batch of prompts in a language model of ours, with packed weights.

Axes: B texts still searched for, W beams of each, P prompt length, D d_model, V vocabulary.
"""

import torch
from torch import Tensor

from vaswani_plugin.modules.language_model import LanguageModel
from vaswani_plugin.modules.transformer import Cache
from vaswani_plugin.search.decoder_stack import ContinuationStack, PackedLanguageModelLayer
from vaswani_plugin.search.packed_linear import PackedLinear


class PackedLanguageModel:
    """The model's weights, laid out for search; out of date once they change."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.layers = [PackedLanguageModelLayer(layer) for layer in model.layers]
        self.projection = PackedLinear(model.embedding.weight)

    def begin(
        self, prompts: dict[str, Tensor], beam: int, with_attention: bool = False
    ) -> "LanguageBeams":
        """Start to continue a batch of prompts.

        Args:
            prompts: `src_tokens` (B, P), padded on the right, and `src_lengths` (B,), none 0.
            beam: W, the greatest number of continuations of a prompt.
            with_attention: not looked at: there is no source to attend to.
        """
        return LanguageBeams(self, prompts["src_tokens"], prompts["src_lengths"], beam)


class LanguageBeams:
    """The continuations of one batch, a token longer with each `advance`: see `stepping.Beams`."""

    def __init__(
        self, packed: PackedLanguageModel, prompts: Tensor, lengths: Tensor, beam: int
    ) -> None:
        self.model, self.projection = packed.model, packed.projection
        cache: Cache = {}
        # The features of a prompt's last token see nothing of the padding behind it.
        features = LanguageModel.forward(self.model, prompts, cache, right_padded=True).features
        last = torch.arange(len(prompts), device=prompts.device), lengths - 1
        self.features = features[last][:, None]  # (B, 1, D)
        read = list(cache.values())
        self.stack = ContinuationStack(packed.layers, read, lengths, beam, self.model.window)

    def advance(self, tokens: Tensor, parents: Tensor | None) -> None:
        """Give every continuation its next token.

        Args:
            tokens: (B, W); at first not read: the prompts' last tokens stand there.
            parents: (B, W), the earlier continuation that each one continues; None at first.
        """
        if parents is None:
            return
        position = self.stack.past.position[:, None]  # (B, 1)
        limit = getattr(self.model, "max_target_positions", None)
        if limit is not None:  # texts that have reached it are done, but may be in the batch still
            position = position.clamp(max=limit - 1)
        x = self.model.embedding(tokens) + self.model.positions(position)
        self.features = self.stack.step(x, parents)

    def logits(self, texts: slice) -> Tensor:
        """Of the next token, (b, W, V), a tensor of its own."""
        features = self.features[texts]
        return self.projection(features.flatten(0, 1)).unflatten(0, features.shape[:2])

    def keep(self, texts: Tensor) -> None:
        """Continue with these texts only: (B',), numbers among those of the batch."""
        self.features = self.features[texts]
        self.stack.keep(texts)
