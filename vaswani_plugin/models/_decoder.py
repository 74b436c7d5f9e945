"""The decoder (section 3.1, right half of Figure 1) at fairseq's border.

Axes: B batch, S source length, T target length, D d_model, H heads, V vocabulary.
"""

import threading

import torch
from torch import Tensor

from vaswani_plugin.models._causal_decoder import CausalDecoder, cached_positions
from vaswani_plugin.models._parts import Parts, require_positions
from vaswani_plugin.modules.beam_decoder import BeamDecoder, PackedDecoderLayer
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.next_word import NextWord, NextWords
from vaswani_plugin.modules.packed_linear import PackedLinear

_PACKING = threading.Lock()
"""Of threads that search with one model the first packs its weights."""


class VaswaniDecoder(CausalDecoder):
    """Embeddings, positions, N layers and the projection (right half of Figure 1).

    In incremental decoding the attention to the source (of the last layer, averaged over
    heads) is returned for fairseq's alignments and unknown-word replacement; set
    `alignment_wanted` to False to spare the work.

    A parser's decoder may be told which word comes next (`next_word`).
    """

    def __init__(
        self,
        dictionary,
        embedding: Embedding,
        projection: Embedding,
        parts: Parts,
        next_word: NextWord | None = None,
    ) -> None:
        limit = parts.cfg.max_target_positions
        super().__init__(dictionary, embedding, projection, parts, limit)
        self.next_word = next_word
        self.alignment_wanted = True
        self.layers = parts.decoder_stack()
        self._packed: PackedDecoder | None = None

    def begin_beam_search(self, encoder_out: dict[str, list[Tensor]], beam: int) -> "DecoderBeams":
        """Start to decode a batch with `beam` hypotheses a sentence.

        Args:
            encoder_out: what the encoder returned, once a sentence.
            beam: W, the greatest number of hypotheses of a sentence.
        """
        with _PACKING:
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
        past = cached_positions(incremental_state)
        memory = encoder_out["encoder_out"][0].transpose(0, 1)  # (S, B, D) -> (B, S, D)
        next_word = None
        if self.next_word:
            words = self.next_word.words(encoder_out["src_tokens"][0], memory)
            next_word = self.next_word(words, self.next_word.written(prev_output_tokens)[:, past:])
        x = self.embed(prev_output_tokens, past, next_word)
        padding = encoder_out["encoder_padding_mask"]
        has_padding = bool(padding) and bool(padding[0].any())
        want_alignment = need_weights or (
            incremental_state is not None and self.alignment_wanted and not self.training
        )
        x, self_weights, cross_weights = self.layers(
            x,
            memory,
            self_mask=self.self_mask(prev_output_tokens, past),
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
        memory = encoder_out["encoder_out"][0].transpose(0, 1)  # (S, B, D) -> (B, S, D)
        self.stack = BeamDecoder(
            packed.layers,
            memory,
            padding[0] if has_padding else None,
            beam,
            decoder.attention_window,
        )
        self.length = 0  # of the hypotheses
        self.next_words: NextWords | None = None
        if decoder.next_word:
            self.next_words = NextWords(decoder.next_word, encoder_out["src_tokens"][0], memory)

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
        decoder = self.decoder
        require_positions(self.length + 1, decoder.max_target_positions, "target")
        position = torch.full((1, 1), self.length, device=tokens.device)
        x = decoder.embedding(tokens) + decoder.positions(position)
        if self.next_words:
            x = x + self.next_words.advance(tokens, parents)
        self.length += 1
        self.features, attention = self.stack.step(x, parents)
        return attention.mean(dim=1) if decoder.alignment_wanted else None

    def logits(self, sentences: slice) -> Tensor:
        """Of the next token, (b, W, V), a tensor of its own."""
        features = self.features[sentences]
        return self.projection(features.flatten(0, 1)).unflatten(0, features.shape[:2])

    def keep(self, sentences: Tensor) -> None:
        """Go on with these sentences only: (B',), numbers among those of the batch."""
        self.stack.keep(sentences)
        if self.next_words:
            self.next_words.keep(sentences)
