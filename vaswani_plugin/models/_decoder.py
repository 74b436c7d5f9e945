"""The decoder (section 3.1, right half of Figure 1) at fairseq's border.

Axes: B batch, S source length, T target length, D d_model, H heads, V vocabulary.
"""

import torch
import torch.nn.functional as F
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor

from vaswani_plugin.models._parts import Parts, require_positions
from vaswani_plugin.modules.beam_decoder import BeamDecoder, PackedDecoderLayer
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.masks import causal_mask, padding_mask
from vaswani_plugin.modules.packed_linear import PackedLinear
from vaswani_plugin.modules.positions import position_ids


class VaswaniDecoder(FairseqIncrementalDecoder):
    """Embeddings, positions, N layers and the projection (right half of Figure 1).

    In incremental decoding the attention to the source (of the last layer, averaged over
    heads) is returned for fairseq's alignments and unknown-word replacement; set
    `alignment_wanted` to False to spare the work.
    """

    def __init__(
        self, dictionary, embedding: Embedding, projection: Embedding, parts: Parts
    ) -> None:
        super().__init__(dictionary)
        cfg = parts.cfg
        self.padding_idx = embedding.padding_idx
        self.dropout = cfg.dropout
        self.attention_window = cfg.attention_window
        self.max_target_positions = cfg.max_target_positions
        self.alignment_wanted = True
        self.embedding = embedding
        self.projection = projection
        self.positions = parts.positions(cfg.max_target_positions)
        self.layers = parts.decoder_stack()
        self.weights_are_final = False
        self._packed: PackedDecoder | None = None

    def make_generation_fast_(self, **unused) -> None:
        """fairseq's commands call this before they generate: the weights don't change any more."""
        self.weights_are_final = True

    def begin_beam_search(self, encoder_out: dict[str, list[Tensor]], beam: int) -> "DecoderBeams":
        """Start to decode a batch with `beam` hypotheses a sentence.

        Args:
            encoder_out: what the encoder returned, once a sentence.
            beam: W, the greatest number of hypotheses of a sentence.
        """
        packed = self._packed or PackedDecoder(self)
        if self.weights_are_final:  # as they are not while a training validates
            self._packed = packed
        return DecoderBeams(self, packed, encoder_out, beam)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Tensor]] | None = None,
        incremental_state: dict[str, dict[str, Tensor]] | None = None,
        features_only: bool = False,
        need_weights: bool = False,
        **unused,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Predict each next token.

        Args:
            prev_output_tokens: (B, T), the target shifted right.
            encoder_out: what the encoder returned.
            incremental_state: key-value cache; only positions not yet in it are computed.
            features_only: stop before the projection.
            need_weights: return the weights of every layer and head.

        Returns:
            Logits (B, T', V), or features (B, T', D), with T' the positions computed; and
            `attn` [(B, T', S) or None], `self_attention` [(B, H, T', T) a layer] and
            `cross_attention` [(B, H, T', S) a layer] on request.

        Raises:
            ValueError: when T exceeds the positions of the model.
        """
        length = prev_output_tokens.size(1)
        require_positions(length, self.max_target_positions, "target")
        past = _cached_positions(incremental_state)
        positions = position_ids(prev_output_tokens, self.padding_idx)[:, past:]
        x = self.embedding(prev_output_tokens[:, past:]) + self.positions(positions)
        x = F.dropout(x, self.dropout, self.training)
        memory = encoder_out["encoder_out"][0].transpose(0, 1)  # (S, B, D) -> (B, S, D)
        padding = encoder_out["encoder_padding_mask"]
        has_padding = bool(padding) and bool(padding[0].any())
        want_alignment = need_weights or (
            incremental_state is not None and self.alignment_wanted and not self.training
        )
        x, self_weights, cross_weights = self.layers(
            x,
            memory,
            self_mask=self._self_mask(prev_output_tokens, past),
            memory_mask=~padding[0][:, None, None, :] if has_padding else None,
            cache=incremental_state,
            need_weights=need_weights,
            need_last_cross_weights=want_alignment,
        )
        extra = {
            "attn": [cross_weights[-1].mean(dim=1) if cross_weights else None],
            "self_attention": self_weights,
            "cross_attention": cross_weights if need_weights else [],
        }
        return (x if features_only else self.output_layer(x)), extra

    def output_layer(self, features: Tensor) -> Tensor:
        """(..., D) -> logits (..., V)."""
        return self.projection.project(features)

    def _self_mask(self, tokens: Tensor, past: int) -> Tensor | None:
        """None where plain causality says it all; else (T', T) or (B, 1, T', T)."""
        length = tokens.size(1)
        left_padded = bool(tokens[:, 0].eq(self.padding_idx).any())
        if not (self.attention_window or left_padded or (past and length - past > 1)):
            return None
        mask = causal_mask(length - past, length, self.attention_window, tokens.device)
        return mask & padding_mask(tokens, self.padding_idx) if left_padded else mask

    def reorder_incremental_state(
        self, incremental_state: dict[str, dict[str, Tensor]], new_order: Tensor
    ) -> None:
        """Let every cache follow the beams: row i becomes what row `new_order[i]` was."""
        for cache in incremental_state.values():
            for name, tensor in cache.items():
                cache[name] = tensor.index_select(0, new_order)

    def max_positions(self) -> int:
        """Longest target in tokens, the end-of-sentence token included."""
        return self.max_target_positions


class PackedDecoder:
    """The decoder's weights, laid out for search; stale once they change."""

    def __init__(self, decoder: VaswaniDecoder) -> None:
        self.layers = [PackedDecoderLayer(layer) for layer in decoder.layers]
        self.projection = PackedLinear(decoder.projection.weight)


class DecoderBeams:
    """The hypotheses of one batch in the decoder, a token longer with each `advance`.

    This is all that search asks of a model of ours.

    Axes: B sentences still there, W beams of each.
    """

    def __init__(
        self,
        decoder: VaswaniDecoder,
        packed: PackedDecoder,
        encoder_out: dict[str, list[Tensor]],
        beam: int,
    ) -> None:
        self.decoder = decoder
        self.projection = packed.projection
        padding = encoder_out["encoder_padding_mask"]
        has_padding = bool(padding) and bool(padding[0].any())
        self.stack = BeamDecoder(
            packed.layers,
            encoder_out["encoder_out"][0].transpose(0, 1),  # (S, B, D) -> (B, S, D)
            padding[0] if has_padding else None,
            beam,
            decoder.attention_window,
        )

    def advance(self, tokens: Tensor, parents: Tensor | None) -> Tensor | None:
        """Give every hypothesis its next token.

        Args:
            tokens: (B, W).
            parents: (B, W), the hypothesis of before that each one continues; None at first.

        Returns:
            Attention to the source, (B, W, S), or None where it is not wanted.

        Raises:
            ValueError: when a hypothesis exceeds the positions of the model.
        """
        decoder, place = self.decoder, self.stack.position
        require_positions(place + 1, decoder.max_target_positions, "target")
        position = torch.full((1, 1), place, device=tokens.device)
        x = decoder.embedding(tokens) + decoder.positions(position)
        self.features, attention = self.stack.step(x, parents)
        return attention.mean(dim=1) if decoder.alignment_wanted else None

    def logits(self, sentences: slice) -> Tensor:
        """Of the next token, (b, W, V), a tensor of its own."""
        features = self.features[sentences]
        return self.projection(features.flatten(0, 1)).unflatten(0, features.shape[:2])

    def keep(self, sentences: Tensor) -> None:
        """Go on with these sentences only: (B',), numbers among those of the batch."""
        self.stack.keep(sentences)


def _cached_positions(incremental_state: dict[str, dict[str, Tensor]] | None) -> int:
    if not incremental_state:
        return 0
    return incremental_state["layers.0.self_attention"]["key"].size(2)
