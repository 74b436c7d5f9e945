"""The graphs of an ONNX export, with the names that Optimum gives an encoder-decoder.

Optimum runs the decoder by two graphs: one that reads the encoder output, and one that reads cached
keys and values. Both take any number of target tokens.

Axes: B batch, S source length, P cached positions, T target length, D d_model, H heads, K d_k,
V d_v; vocabulary is written out.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from vaswani_plugin.inference.onnx_engine import (
    DECODER,
    DECODER_WITH_PAST,
    ENCODER,
    cross_attention_name,
    past_names,
)
from vaswani_plugin.modules.attention import KeyValueCache
from vaswani_plugin.modules.masks import causal_mask
from vaswani_plugin.modules.positions import add_positions
from vaswani_plugin.modules.transformer import Decoder, Encoder, EncoderDecoder

OPSET = 17
"""The first version of ONNX's operators that has LayerNormalization."""
BATCH, SOURCE, PAST = "batch_size", "encoder_sequence_length", "past_decoder_sequence_length"
TARGET = "decoder_sequence_length"
EXAMPLE = {BATCH: 2, SOURCE: 5, TARGET: 3, PAST: 4}
"""Sizes with which the graphs are traced; none is fixed by it."""


class EncoderGraph(nn.Module):
    """encoder_model.onnx."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Two (B, S), the mask 0 at padding -> last_hidden_state (B, S, D)."""
        tokens = input_ids.masked_fill(attention_mask == 0, self.encoder.padding_idx)
        return self.encoder(tokens).features


class DecoderGraph(nn.Module):
    """decoder_model.onnx, and with `with_past` decoder_with_past_model.onnx."""

    def __init__(self, decoder: Decoder, with_past: bool) -> None:
        super().__init__()
        self.decoder = decoder
        self.with_past = with_past

    def forward(self, ids: Tensor, source_mask: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        """Compute the logits of each next token.

        Args:
            ids: the target shifted right, without its cached part, (B, T).
            source_mask: (B, S), 0 at padding.
            given: the encoder output (B, S, D); with `with_past`, of each layer the keys
                (B, H, P, K) and values (B, H, P, V) of the target, then those of the source.

        Returns:
            Logits (B, T, vocabulary), the keys and values in the order of `given`, without the
            source's with `with_past`, and the last layer's attention to the source (B, H, T, S).
        """
        layers, caches = self.decoder.layers, self._caches(given)
        new, past = ids.size(1), given[0].size(2) if self.with_past else 0
        mask = causal_mask(new, past + new)
        visible = source_mask.bool()[:, None, None]
        positions = torch.arange(past, past + new, device=ids.device)
        x = add_positions(self.decoder.embedding(ids), self.decoder.positions(positions))
        # With cached keys and values, the layers don't read the encoder output.
        memory = x if self.with_past else given[0]
        for number, (layer, cache) in enumerate(zip(layers, caches, strict=True), start=1):
            is_last = number == len(layers)
            x, _, weights = layer(x, memory, mask, visible, False, cache, False, is_last)
        kept = (pair[: 1 if self.with_past else 2] for pair in caches)
        present = [cache[kind] for pair in kept for cache in pair for kind in ("key", "value")]
        return self.decoder.project(x), *present, weights

    def _caches(self, given: Sequence[Tensor]) -> list[tuple[KeyValueCache, KeyValueCache]]:
        """The caches of each layer's self-attention and cross-attention."""
        if not self.with_past:
            return [({}, {}) for _ in self.decoder.layers]
        fours = zip(*[iter(given)] * 4, strict=True)
        return [({"key": a, "value": b}, {"key": c, "value": d}) for a, b, c, d in fours]


def write_graphs(model: EncoderDecoder, folder: Path) -> None:
    """Write the three graphs of a model, in float32, into a folder.

    Args:
        model: in evaluation mode, of the plain modules.
        folder: an existing one.
    """
    encoder, decoder, layers = model.encoder, model.decoder, len(model.decoder.layers)
    source = {"input_ids": (BATCH, SOURCE), "attention_mask": (BATCH, SOURCE)}
    width = decoder.embedding.weight.size(1)
    _write(EncoderGraph(encoder), source, {}, ["last_hidden_state"], folder / ENCODER)
    inputs = {"input_ids": (BATCH, TARGET), "encoder_attention_mask": (BATCH, SOURCE)}
    memory = {"encoder_hidden_states": (BATCH, SOURCE, width)}
    weights = cross_attention_name(layers)
    present = past_names("present", layers)
    outputs = ["logits", *present, weights]
    _write(DecoderGraph(decoder, False), inputs, memory, outputs, folder / DECODER)
    past = {}
    for name in past_names("past_key_values", layers):
        attention = decoder.layers[0].self_attention
        linear = attention.key if name.endswith("key") else attention.value
        heads = attention.heads
        length = PAST if ".decoder." in name else SOURCE
        past[name] = (BATCH, heads, length, linear.out_features // heads)
    outputs = ["logits", *(name for name in present if ".decoder." in name), weights]
    _write(DecoderGraph(decoder, True), inputs, past, outputs, folder / DECODER_WITH_PAST)


Shape = tuple[str | int, ...]


def _write(
    graph: nn.Module,
    ids: dict[str, tuple[str, str]],
    numbers: dict[str, Shape],
    outputs: list[str],
    path: Path,
) -> None:
    """Trace a graph and write it.

    Args:
        graph: the module.
        ids: shapes of its first inputs by name: token numbers and masks.
        numbers: shapes of its other inputs; a word is an axis of any size.
        outputs: names.
        path: of the file.
    """
    shapes: dict[str, Shape] = {**ids, **numbers}
    sizes = {name: [EXAMPLE.get(str(n), n) for n in shape] for name, shape in shapes.items()}
    example = [
        torch.ones(size, dtype=torch.long if name in ids else None, device="cpu")
        for name, size in sizes.items()
    ]
    axes = {
        name: {axis: n for axis, n in enumerate(shape) if isinstance(n, str)}
        for name, shape in shapes.items()
    }
    axes |= {name: _output_axes(name) for name in outputs}
    with warnings.catch_warnings(), torch.no_grad():
        # PyTorch's newer exporter, which the warnings name, needs another package.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph.eval(),  # PyTorch restores the mode of every part
            tuple(example),
            str(path),
            dynamo=False,
            opset_version=OPSET,
            input_names=list(shapes),
            output_names=outputs,
            dynamic_axes=axes,
        )


def _output_axes(name: str) -> dict[int, str]:
    """Names of an output's axes of any size."""
    if name == "last_hidden_state":
        return {0: BATCH, 1: SOURCE}
    if name == "logits":
        return {0: BATCH, 1: TARGET}
    if name.startswith("present"):
        return {0: BATCH, 2: f"{PAST} + {TARGET}" if ".decoder." in name else SOURCE}
    return {0: BATCH, 2: TARGET, 3: SOURCE}
