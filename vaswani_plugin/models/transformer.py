"""The Transformer of the paper as a fairseq model (section 3, Figure 1).

Inside, the batch comes first; at fairseq's border the encoder's output is (S, B, D), so
that fairseq's generator, scorer and ensembles work with it.

Axes: B batch, S source length, T target length, D d_model, H heads, V vocabulary, N layers.
"""

import argparse
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Optional

import torch
import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import (
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    FairseqIncrementalDecoder,
    register_model,
    register_model_architecture,
)
from omegaconf import II
from torch import Tensor, nn

from vaswani_plugin.architectures import ARCHITECTURES, Architecture
from vaswani_plugin.modules.attention import MultiHeadAttention
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.feed_forward import FeedForward
from vaswani_plugin.modules.layers import (
    LAYER_NORM_EPS,
    AddNorm,
    DecoderLayer,
    DecoderStack,
    EncoderLayer,
    EncoderStack,
)
from vaswani_plugin.modules.masks import causal_mask, neighbourhood_mask, padding_mask
from vaswani_plugin.modules.positions import (
    LearnedPositions,
    SinusoidalPositions,
    fairseq_sinusoids,
    position_ids,
    sinusoids,
)

POSITIONS = ChoiceEnum(["sinusoidal", "sinusoidal-fairseq", "learned"])
SHARING = ChoiceEnum(["all", "decoder", "none"])


@dataclass
class VaswaniTransformerConfig(FairseqDataclass):
    """The defaults are the paper's base model (Table 3, first line)."""

    d_model: int = field(default=512, metadata={"help": "width of the model"})
    d_ff: int = field(default=2048, metadata={"help": "width inside the feed-forward network"})
    encoder_layers: int = field(default=6, metadata={"help": "N of the encoder"})
    decoder_layers: int = field(default=6, metadata={"help": "N of the decoder"})
    heads: int = field(default=8, metadata={"help": "h, attention heads"})
    d_k: Optional[int] = field(  # noqa: UP045 -- fairseq's parser reads no other spelling
        default=None, metadata={"help": "width of a head's queries and keys (d_model / heads)"}
    )
    d_v: Optional[int] = field(  # noqa: UP045
        default=None, metadata={"help": "width of a head's values (d_model / heads)"}
    )
    dropout: float = field(
        default=0.1, metadata={"help": "P_drop, on sub-layer outputs and embeddings + positions"}
    )
    attention_dropout: float = field(
        default=0.0, metadata={"help": "dropout of attention weights (not in the paper)"}
    )
    activation_dropout: float = field(
        default=0.0, metadata={"help": "dropout inside the feed-forward network (not in the paper)"}
    )
    positions: POSITIONS = field(
        default="sinusoidal",
        metadata={"help": "positional encoding: the paper's, fairseq's sinusoids, or learned"},
    )
    share_embeddings: SHARING = field(
        default="all",
        metadata={
            "help": "one matrix for source, target and projection (all, the paper), "
            "for target and projection (decoder), or none shared"
        },
    )
    attention_window: int = field(
        default=0,
        metadata={"help": "r of restricted self-attention (section 4); 0 attends everywhere"},
    )
    layer_norm_eps: float = field(
        default=LAYER_NORM_EPS, metadata={"help": "epsilon of LayerNorm (authors' code: 1e-6)"}
    )
    max_source_positions: int = II("task.max_source_positions")
    max_target_positions: int = II("task.max_target_positions")


def head_sizes(cfg: VaswaniTransformerConfig) -> tuple[int, int]:
    """d_k and d_v, each d_model / heads where it is not given (section 3.2.2).

    Raises:
        ValueError: when the heads don't divide d_model, or a size is below 1.
    """
    for name in ("d_model", "heads", "d_ff", "encoder_layers", "decoder_layers"):
        if getattr(cfg, name) < 1:
            raise ValueError(f"{_flag(name)} is {getattr(cfg, name)}; it must be at least 1")
    if cfg.attention_window < 0:
        raise ValueError(f"--attention-window is {cfg.attention_window}; 0 means no restriction")
    sizes = []
    for name in ("d_k", "d_v"):
        size = getattr(cfg, name)
        if size is None:
            size, rest = divmod(cfg.d_model, cfg.heads)
            if rest:
                raise ValueError(
                    f"--heads {cfg.heads} does not divide --d-model {cfg.d_model}; "
                    f"choose heads that do, or give --d-k and --d-v"
                )
        if size < 1:
            raise ValueError(f"{_flag(name)} is {size}; it must be at least 1")
        sizes.append(size)
    return sizes[0], sizes[1]


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


class _Parts:
    """Makes modules of one configuration."""

    def __init__(self, cfg: VaswaniTransformerConfig) -> None:
        self.cfg = cfg
        self.d_k, self.d_v = head_sizes(cfg)
        self.add_norm = partial(AddNorm, cfg.d_model, cfg.dropout, cfg.layer_norm_eps)

    def attention(self) -> MultiHeadAttention:
        cfg = self.cfg
        return MultiHeadAttention(cfg.d_model, cfg.heads, self.d_k, self.d_v, cfg.attention_dropout)

    def feed_forward(self) -> FeedForward:
        return FeedForward(self.cfg.d_model, self.cfg.d_ff, self.cfg.activation_dropout)

    def positions(self, max_positions: int) -> nn.Module:
        if self.cfg.positions == "learned":
            return LearnedPositions(max_positions, self.cfg.d_model)
        fairseq_style = self.cfg.positions == "sinusoidal-fairseq"
        encoding = fairseq_sinusoids if fairseq_style else sinusoids
        return SinusoidalPositions(max_positions, self.cfg.d_model, encoding)

    def encoder_stack(self) -> EncoderStack:
        return EncoderStack(
            EncoderLayer(self.attention(), self.feed_forward(), self.add_norm)
            for _ in range(self.cfg.encoder_layers)
        )

    def decoder_stack(self) -> DecoderStack:
        return DecoderStack(
            DecoderLayer(self.attention(), self.attention(), self.feed_forward(), self.add_norm)
            for _ in range(self.cfg.decoder_layers)
        )


def _require_positions(length: int, limit: int, side: str) -> None:
    if length > limit:
        raise ValueError(
            f"a {side} sentence has {length} tokens and the model {limit} positions; shorten it, "
            f"skip it with --skip-invalid-size-inputs-valid-test, or train with a larger "
            f"--max-{side}-positions"
        )


class VaswaniEncoder(FairseqEncoder):
    """Embeddings, positions and N layers (section 3.1, left half of Figure 1)."""

    def __init__(self, dictionary, embedding: Embedding, parts: _Parts) -> None:
        super().__init__(dictionary)
        cfg = parts.cfg
        self.padding_idx = embedding.padding_idx
        self.dropout = cfg.dropout
        self.attention_window = cfg.attention_window
        self.max_source_positions = cfg.max_source_positions
        self.embedding = embedding
        self.positions = parts.positions(cfg.max_source_positions)
        self.layers = parts.encoder_stack()

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        need_weights: bool = False,
        **unused,
    ) -> dict[str, list[Tensor]]:
        """Encode a batch.

        Args:
            src_tokens: (B, S), padded on either side.
            src_lengths: not needed: padding is read off the tokens.
            need_weights: also return each layer's attention weights.

        Returns:
            `encoder_out` [(S, B, D)], `encoder_padding_mask` [(B, S), True at padding], and
            `attention` [(B, H, S, S) a layer] on request.

        Raises:
            ValueError: when S exceeds the positions of the model.
        """
        _require_positions(src_tokens.size(1), self.max_source_positions, "source")
        padding = src_tokens.eq(self.padding_idx)
        x = self.embedding(src_tokens)
        x = x + self.positions(position_ids(src_tokens, self.padding_idx))
        x = F.dropout(x, self.dropout, self.training)
        x, weights = self.layers(x, self._mask(src_tokens, bool(padding.any())), need_weights)
        return {
            "encoder_out": [x.transpose(0, 1)],  # (B, S, D) -> (S, B, D)
            "encoder_padding_mask": [padding],
            "attention": weights,
        }

    def _mask(self, src_tokens: Tensor, has_padding: bool) -> Tensor | None:
        mask = padding_mask(src_tokens, self.padding_idx) if has_padding else None
        if self.attention_window:
            near = neighbourhood_mask(src_tokens.size(1), self.attention_window, src_tokens.device)
            mask = near if mask is None else mask & near
        return mask

    def reorder_encoder_out(
        self, encoder_out: dict[str, list[Tensor]], new_order: Tensor
    ) -> dict[str, list[Tensor]]:
        """Pick sentences: `new_order` (B',) numbers those of the batch to keep or repeat."""
        return {
            "encoder_out": [x.index_select(1, new_order) for x in encoder_out["encoder_out"]],
            "encoder_padding_mask": [
                x.index_select(0, new_order) for x in encoder_out["encoder_padding_mask"]
            ],
            "attention": [x.index_select(0, new_order) for x in encoder_out["attention"]],
        }

    def max_positions(self) -> int:
        """Longest source in tokens, the end-of-sentence token included."""
        return self.max_source_positions


class VaswaniDecoder(FairseqIncrementalDecoder):
    """Embeddings, positions, N layers and the projection (right half of Figure 1).

    In incremental decoding the attention to the source (of the last layer, averaged over
    heads) is returned for fairseq's alignments and unknown-word replacement; set
    `alignment_wanted` to False to spare the work.
    """

    def __init__(
        self, dictionary, embedding: Embedding, projection: Embedding, parts: _Parts
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
        _require_positions(length, self.max_target_positions, "target")
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


def _cached_positions(incremental_state: dict[str, dict[str, Tensor]] | None) -> int:
    if not incremental_state:
        return 0
    return incremental_state["layers.0.self_attention"]["key"].size(2)


@register_model("vaswani_transformer", dataclass=VaswaniTransformerConfig)
class VaswaniTransformer(FairseqEncoderDecoderModel):
    """Figure 1. `--arch` names a row of `vaswani_plugin/architectures.py`."""

    @classmethod
    def build_model(cls, cfg: VaswaniTransformerConfig, task) -> "VaswaniTransformer":
        """Build the model of a configuration.

        Raises:
            ValueError: when sizes don't fit, or all embeddings are to be shared between
                differing dictionaries.
        """
        parts = _Parts(cfg)
        source, target = task.source_dictionary, task.target_dictionary
        if cfg.share_embeddings == "all" and source != target:
            raise ValueError(
                "the source and target dictionaries differ, so one matrix can't serve both; "
                "binarize with --joined-dictionary, or give --share-embeddings decoder"
            )
        target_embedding = Embedding(len(target), cfg.d_model, target.pad())
        source_embedding, projection = target_embedding, target_embedding
        if cfg.share_embeddings != "all":
            source_embedding = Embedding(len(source), cfg.d_model, source.pad())
        if cfg.share_embeddings == "none":
            projection = Embedding(len(target), cfg.d_model, target.pad())
        encoder = VaswaniEncoder(source, source_embedding, parts)
        decoder = VaswaniDecoder(target, target_embedding, projection, parts)
        return cls(encoder, decoder)

    @property
    def projection_weight(self) -> Tensor:
        """The rows of the pre-softmax projection (V, D), for a loss that projects itself."""
        return self.decoder.projection.weight

    @torch.no_grad()
    def attention_weights(
        self, src_tokens: Tensor, prev_output_tokens: Tensor
    ) -> dict[str, list[Tensor]]:
        """The three attentions of section 3.2.3, for pictures.

        Args:
            src_tokens: (B, S).
            prev_output_tokens: (B, T).

        Returns:
            A tensor a layer: `encoder` (B, H, S, S), `decoder` (B, H, T, T) and `cross`
            (B, H, T, S).
        """
        encoder_out = self.encoder(src_tokens, need_weights=True)
        _, extra = self.decoder(prev_output_tokens, encoder_out, need_weights=True)
        return {
            "encoder": encoder_out["attention"],
            "decoder": extra["self_attention"],
            "cross": extra["cross_attention"],
        }


def _register(row: Architecture) -> None:
    unknown = set(row.changes) - {f.name for f in fields(VaswaniTransformerConfig)}
    if unknown:
        raise ValueError(f"{row.name} sets unknown keys: {', '.join(sorted(unknown))}")

    @register_model_architecture("vaswani_transformer", row.name)
    def set_unset_keys(args: argparse.Namespace) -> None:
        for key, value in row.changes.items():
            if getattr(args, key, None) is None:
                setattr(args, key, value)


for _row in ARCHITECTURES:
    _register(_row)
