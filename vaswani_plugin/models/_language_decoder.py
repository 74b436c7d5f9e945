"""The decoder-only Transformer at fairseq's border.

Axes: B batch, T tokens, D d_model, H heads, V vocabulary.
"""

import torch
from torch import Tensor

from vaswani_plugin.configurations import OneLayerConfig, VaswaniLanguageModelConfig
from vaswani_plugin.errors import UserError
from vaswani_plugin.models._causal_decoder import CausalDecoder, cached_positions
from vaswani_plugin.models._parts import Parts
from vaswani_plugin.modules.beam_decoder import Continuation, PackedLanguageModelLayer
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.packed_linear import PackedLinear


class LanguageDecoder(CausalDecoder):
    """Embeddings, positions, N layers of masked self-attention, and the projection."""

    def __init__(self, dictionary, embedding: Embedding, parts: Parts, limit: int) -> None:
        super().__init__(dictionary, embedding, embedding, parts, limit)
        self.layers = parts.language_model_stack()
        self._packed: PackedLanguageModel | None = None

    def begin_beam_search(self, prompts: dict[str, Tensor], beam: int) -> "LanguageBeams":
        """Start to continue a batch of prompts.

        Args:
            prompts: `src_tokens` (B, P), padded on the right, and `src_lengths` (B,), none 0.
            beam: W, the greatest number of continuations of a prompt.
        """
        packed = self._packed or PackedLanguageModel(self)
        if self.weights_are_final:  # as they are not while a training validates
            self._packed = packed
        return LanguageBeams(self, packed, prompts["src_tokens"], prompts["src_lengths"], beam)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        encoder_out: None = None,
        incremental_state: dict[str, dict[str, Tensor]] | None = None,
        features_only: bool = False,
        need_weights: bool = False,
        **unused,
    ) -> tuple[Tensor, dict[str, list[Tensor]]]:
        """Predict each next token.

        Args:
            src_tokens: (B, T), the text shifted right, padded on either side.
            src_lengths: not needed: padding is read off the tokens.
            encoder_out: not needed: there is no encoder.
            incremental_state: key-value cache; only positions not yet in it are computed.
            features_only: stop before the projection.
            need_weights: return the weights of every layer and head.

        Returns:
            Logits (B, T', V), or features (B, T', D), with T' the positions computed; and
            `self_attention` [(B, H, T', T) a layer] on request.

        Raises:
            UserError: when T exceeds the positions of the model.
        """
        require_language_positions(src_tokens.size(1), self.max_target_positions)
        past = cached_positions(incremental_state)
        x, weights = self.layers(
            self.embed(src_tokens, past),
            mask=self.self_mask(src_tokens, past),
            cache=incremental_state,
            need_weights=need_weights,
        )
        extra = {"attn": [None], "self_attention": weights}
        return (x if features_only else self.output_layer(x)), extra


class PackedLanguageModel:
    """The decoder's weights, laid out for search; stale once they change."""

    def __init__(self, decoder: LanguageDecoder) -> None:
        self.layers = [PackedLanguageModelLayer(layer) for layer in decoder.layers]
        self.projection = PackedLinear(decoder.projection.weight)


class LanguageBeams:
    """The continuations of one batch of prompts, a token longer with each `advance`.

    This is all that search asks of a model of ours. Axes: B texts still there, W beams of each.
    """

    def __init__(
        self,
        decoder: LanguageDecoder,
        packed: PackedLanguageModel,
        prompts: Tensor,
        lengths: Tensor,
        beam: int,
    ) -> None:
        self.decoder = decoder
        self.projection = packed.projection
        cache: dict[str, dict[str, Tensor]] = {}
        # A cache that holds nothing yet is only filled; right padding is behind all that counts.
        features, _ = decoder(prompts, incremental_state=cache, features_only=True)
        last = torch.arange(len(prompts), device=prompts.device), lengths - 1
        self.features = features[last][:, None]  # (B, 1, D)
        window = decoder.attention_window
        self.stack = Continuation(packed.layers, list(cache.values()), lengths, beam, window)

    def advance(self, tokens: Tensor, parents: Tensor | None) -> None:
        """Give every continuation its next token.

        Args:
            tokens: (B, W); at first not read: the prompts' last tokens stand there.
            parents: (B, W), the continuation of before that each one continues; None at first.
        """
        if parents is None:
            return
        position = self.stack.past.position[:, None]  # (B, 1)
        # Texts that have reached the limit are done, but may still be in the batch.
        position = position.clamp(max=self.decoder.max_target_positions - 1)
        x = self.decoder.embedding(tokens) + self.decoder.positions(position)
        self.features = self.stack.step(x, parents)

    def logits(self, texts: slice) -> Tensor:
        """Of the next token, (b, W, V), a tensor of its own."""
        features = self.features[texts]
        return self.projection(features.flatten(0, 1)).unflatten(0, features.shape[:2])

    def keep(self, texts: Tensor) -> None:
        """Go on with these texts only: (B',), numbers among those of the batch."""
        self.features = self.features[texts]
        self.stack.keep(texts)


def position_limit(cfg: VaswaniLanguageModelConfig | OneLayerConfig) -> int:
    """Positions of a language model: --max-target-positions, else those of a training sample."""
    return cfg.max_target_positions or cfg.tokens_per_sample + bool(cfg.add_bos_token)


def require_one_dictionary(task) -> None:
    """Refuse a task of which one matrix can't both embed and project.

    Raises:
        UserError: when the outputs' dictionary is not the inputs'.
    """
    if task.source_dictionary != task.target_dictionary:
        raise UserError(
            "--output-dictionary-size makes another dictionary of the outputs, but one matrix "
            "embeds and projects here; leave it out, or binarize with a smaller dictionary"
        )


def require_language_positions(length: int, limit: int) -> None:
    """Refuse what has no position.

    Raises:
        UserError: when a text of `length` tokens exceeds the model's `limit`.
    """
    if length > limit:
        raise UserError(
            f"a sample has {length} tokens and the language model {limit} positions; give "
            f"--tokens-per-sample {limit} or less, or train with more"
        )
