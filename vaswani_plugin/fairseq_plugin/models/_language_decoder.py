"""The Transformer language model with fairseq's interface.

Axes: B batch, T tokens, D d_model, H heads, V vocabulary.
"""

from fairseq.data import Dictionary
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.models._causal_decoder import CausalDecoder, IncrementalState
from vaswani_plugin.fairseq_plugin.models._parts import Parts
from vaswani_plugin.model.configurations import OneLayerConfig, VaswaniLanguageModelConfig
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.language_model import LanguageModel


class LanguageDecoder(LanguageModel, CausalDecoder):
    """`modules.language_model.LanguageModel` as fairseq's models expect it."""

    trains_right_padded = True  # as fairseq's text datasets are

    def __init__(
        self, dictionary: Dictionary, embedding: Embedding, parts: Parts, limit: int
    ) -> None:
        cfg = parts.cfg
        layers = (parts.encoder_layer() for _ in range(cfg.decoder_layers))
        positions = parts.positions(limit)
        super().__init__(embedding, positions, layers, cfg.dropout, cfg.attention_window)
        self.dictionary = dictionary
        self.max_target_positions = limit
        parts.set_training_switches(self)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        encoder_out: None = None,
        incremental_state: IncrementalState | None = None,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Predict each next token.

        Args:
            src_tokens: (B, T), the text shifted right, padded on either side.
            src_lengths: not needed: padding is read off the tokens.
            encoder_out: not needed: there is no encoder.
            incremental_state: key-value cache; only positions not yet in it are computed.
            features_only: stop before the projection.
            return_all_hiddens: also return the first layer's input and each layer's output.
            need_weights: also return the weights of every layer and head.

        Returns:
            Logits (B, T', V), or features (B, T', D), where T' is the number of computed
            positions; and a dictionary, on request with `inner_states` [(T', B, D)] and
            `self_attention` [(B, H, T', T) of each layer].

        Raises:
            UserError: when T exceeds the positions of the model.
        """
        require_language_positions(src_tokens.size(1), self.max_target_positions)
        output = super().forward(src_tokens, incremental_state, self.right_padded, need_weights)
        states = output.states if return_all_hiddens else []
        extra = {
            "attn": [None],
            "inner_states": [x.transpose(0, 1) for x in states],  # (B, T', D) -> (T', B, D)
            "self_attention": output.self_weights,
        }
        x = output.features
        return (x if features_only else self.output_layer(x)), extra

    def extract_features(
        self, src_tokens: Tensor, **options
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """`forward` without the projection: features (B, T', D), and the dictionary."""
        return self(src_tokens, features_only=True, **options)


def position_limit(cfg: VaswaniLanguageModelConfig | OneLayerConfig) -> int:
    """Positions of a language model: --max-target-positions, else the length of a sample."""
    return cfg.max_target_positions or cfg.tokens_per_sample + bool(cfg.add_bos_token)


def require_one_dictionary(task) -> None:
    """Refuse a task with two dictionaries: one matrix embeds inputs and projects to outputs.

    Raises:
        UserError: when the outputs' dictionary is not the inputs'.
    """
    if task.source_dictionary != task.target_dictionary:
        raise UserError(
            "--output-dictionary-size makes another dictionary of the outputs, but one matrix "
            "embeds and projects here; leave it out, or binarize with a smaller dictionary"
        )


def require_language_positions(length: int, limit: int) -> None:
    """Refuse a text that is longer than the model's positions.

    Raises:
        UserError: when a text of `length` tokens exceeds the model's `limit`.
    """
    if length > limit:
        raise UserError(
            f"a sample has {length} tokens and the language model {limit} positions; give "
            f"--tokens-per-sample {limit} or less, or train with more"
        )
