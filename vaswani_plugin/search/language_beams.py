"""The continuations of a batch of prompts in our language model, with packed weights.

Axes: B unfinished texts, W beams of each, P prompt length, D d_model, V vocabulary.
"""

import torch
from torch import Tensor

from vaswani_plugin.modules.language_model import LanguageModel
from vaswani_plugin.modules.positions import add_positions
from vaswani_plugin.modules.transformer import Cache
from vaswani_plugin.search.decoder_stack import ContinuationStack, PackedLanguageModelLayer
from vaswani_plugin.search.packed_linear import PackedLinear


class PackedLanguageModel:
    """The model's weights, packed for search. When they change, pack them again."""

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
            with_attention: ignored, since there is no source.
        """
        return LanguageBeams(self, prompts["src_tokens"], prompts["src_lengths"], beam)


class LanguageBeams:
    """The continuations of one batch; each `advance` appends a token. See `stepping.Beams`."""

    def __init__(
        self, packed: PackedLanguageModel, prompts: Tensor, lengths: Tensor, beam: int
    ) -> None:
        self.model, self.projection = packed.model, packed.projection
        cache: Cache = {}
        # A prompt's last token does not attend to the padding after it.
        features = LanguageModel.forward(self.model, prompts, cache, right_padded=True).features
        last = torch.arange(len(prompts), device=prompts.device), lengths - 1
        self.features = features[last][:, None]  # (B, 1, D)
        read = list(cache.values())
        self.stack = ContinuationStack(packed.layers, read, lengths, beam, self.model.window)

    def advance(self, tokens: Tensor, parents: Tensor | None) -> None:
        """Append a token to every continuation.

        Args:
            tokens: (B, W); ignored at first, when the prompts' last tokens are used.
            parents: (B, W), the earlier continuation that each one continues; None at first.
        """
        if parents is None:
            return
        position = self.stack.past.position[:, None]  # (B, 1)
        limit = getattr(self.model, "max_target_positions", None)
        if limit is not None:  # texts at the limit are done, but may still be in the batch
            position = position.clamp(max=limit - 1)
        x = add_positions(self.model.embedding(tokens), self.model.positions(position))
        self.features = self.stack.step(x, parents)

    def logits(self, texts: slice) -> Tensor:
        """Return the logits of the next token, (b, W, V), in a new tensor."""
        features = self.features[texts]
        return self.projection(features.flatten(0, 1)).unflatten(0, features.shape[:2])

    def keep(self, texts: Tensor) -> None:
        """Keep these texts only: (B',), their numbers in the batch."""
        self.features = self.features[texts]
        self.stack.keep(texts)
