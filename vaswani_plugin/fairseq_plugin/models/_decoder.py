"""The decoder (section 3.1, right half of Figure 1) with fairseq's interface.

Axes: B batch, S source length, T target length, D d_model, H heads, V vocabulary.
"""

from fairseq.data import Dictionary
from torch import Tensor

from vaswani_plugin.fairseq_plugin.models._causal_decoder import CausalDecoder, IncrementalState
from vaswani_plugin.fairseq_plugin.models._parts import Parts
from vaswani_plugin.model.parts import require_positions
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.parser import NextWord
from vaswani_plugin.modules.transformer import Decoder, Output, cached_positions

EncoderOut = dict[str, list[Tensor]]
"""The output of `VaswaniEncoder`, by name."""


class VaswaniDecoder(Decoder, CausalDecoder):
    """`modules.transformer.Decoder` as fairseq's models expect it.

    A parser's decoder may be given the next word of the source (`next_word`).

    Attributes:
        alignment_wanted: whether incremental decoding returns the attention to the source, for
            fairseq's alignments and its replacing of unknown words. False saves the work.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        embedding: Embedding,
        projection: Embedding,
        parts: Parts,
        next_word: NextWord | None = None,
        trains_right_padded: bool = False,
    ) -> None:
        cfg = parts.cfg
        layers = (parts.decoder_layer() for _ in range(cfg.decoder_layers))
        positions = parts.positions(cfg.max_target_positions)
        super().__init__(
            embedding, positions, layers, cfg.dropout, cfg.attention_window, projection
        )
        self.dictionary = dictionary
        self.max_target_positions = cfg.max_target_positions
        self.trains_right_padded = trains_right_padded
        self.next_word = next_word
        self.alignment_wanted = True
        parts.set_training_switches(self)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        incremental_state: IncrementalState | None = None,
        features_only: bool = False,
        full_context_alignment: bool = False,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Predict each next token.

        Args:
            prev_output_tokens: (B, T), the target shifted right.
            encoder_out: the output of `VaswaniEncoder`.
            incremental_state: key-value cache; only positions not yet in it are computed.
            features_only: stop before the projection.
            full_context_alignment: let each position attend to the future, too.
            alignment_layer: layer of which `attn` is the cross-attention; None: the last.
            alignment_heads: `attn` is the mean over this many heads, from the first; None: all.
            src_lengths: not needed: padding is read off the encoder's output.
            return_all_hiddens: also return the first layer's input and each layer's output.
            need_weights: also return the weights of every layer and head.

        Returns:
            Logits (B, T', V), or features (B, T', D), where T' is the number of computed
            positions; and a dictionary of `attn` [(B, T', S)], or [None] if only features were
            requested; on request `inner_states` [(T', B, D)], `self_attention` [(B, H, T', T) of
            each layer] and `cross_attention` [(B, H, T', S) of each layer].

        Raises:
            UserError: when T exceeds the positions of the model.
        """
        wants_alignment = not features_only or alignment_layer is not None
        if incremental_state is not None:
            wants_alignment = wants_alignment and self.alignment_wanted
        if wants_alignment and alignment_layer is None:
            alignment_layer = len(self.layers) - 1
        output = self._decode(
            prev_output_tokens,
            encoder_out,
            incremental_state,
            full_context_alignment,
            need_weights,
            alignment_layer if wants_alignment else None,
        )
        attention = None
        if wants_alignment:
            weights = output.cross_weights[alignment_layer if need_weights else 0]
            attention = weights[:, :alignment_heads].mean(dim=1)
        states = output.states if return_all_hiddens else []
        extra = {
            "attn": [attention],
            "inner_states": [x.transpose(0, 1) for x in states],  # (B, T', D) -> (T', B, D)
            "self_attention": output.self_weights,
            "cross_attention": output.cross_weights if need_weights else [],
        }
        x = output.features
        return (x if features_only else self.output_layer(x)), extra

    def _decode(
        self,
        tokens: Tensor,
        encoder_out: EncoderOut,
        cache: IncrementalState | None,
        full_context: bool,
        need_weights: bool,
        alignment_layer: int | None,
    ) -> Output:
        require_positions(tokens.size(1), self.max_target_positions, "target")
        memory = encoder_out["encoder_out"][0].transpose(0, 1)  # (S, B, D) -> (B, S, D)
        memory_mask = None
        if encoder_out["encoder_padding_mask"]:
            memory_mask = ~encoder_out["encoder_padding_mask"][0][:, None, None, :]
        next_word = None
        if self.next_word is not None:
            words = self.next_word.words(encoder_out["src_tokens"][0], memory)
            written = self.next_word.written(tokens)[:, cached_positions(cache) :]
            next_word = self.next_word(words, written)
        return super().forward(
            tokens,
            memory,
            memory_mask,
            cache,
            self.right_padded,
            full_context,
            need_weights,
            alignment_layer,
            next_word,
        )

    def extract_features(
        self, prev_output_tokens: Tensor, encoder_out: EncoderOut, **options
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """`forward` without the projection: features (B, T', D), and the last layer's `attn`."""
        options.setdefault("alignment_layer", len(self.layers) - 1)
        return self(prev_output_tokens, encoder_out, features_only=True, **options)
