"""Exports a bundle to ONNX: three graphs with Optimum's names.

Optimum runs the decoder by two graphs: one that reads the encoder output, and one that reads cached
keys and values. Both take any number of target tokens. The folder is a bundle, too, for `vaswani
translate`. Its config.json names MarianMT, a type that Optimum knows; Optimum takes the arithmetic
from the graphs, so they may be of any row of Table 3.

Axes: B batch, S source length, P cached positions, T target length, D d_model, H heads, K d_k,
V d_v; vocabulary is written out.
"""

import logging
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vaswani_plugin.errors import UserError, optional
from vaswani_plugin.export import exported_model
from vaswani_plugin.export.huggingface_export import generation_config, marian_config
from vaswani_plugin.files.outputs import write_json
from vaswani_plugin.inference import onnx_engine
from vaswani_plugin.inference.onnx_engine import DECODER, DECODER_WITH_PAST, ENCODER
from vaswani_plugin.model.build import build
from vaswani_plugin.modules.attention import KeysAndValues, causal_mask
from vaswani_plugin.modules.transformer import Cache, Decoder, Encoder, EncoderDecoder
from vaswani_plugin.text.dictionary import PAD
from vaswani_plugin.text.settings import OURS, weights_path

OPSET = 17  # the first version of ONNX's operators that has LayerNormalization
BATCH, SOURCE, PAST = "batch_size", "encoder_sequence_length", "past_decoder_sequence_length"
TARGET = "decoder_sequence_length"
EXAMPLE = {BATCH: 2, SOURCE: 5, TARGET: 3, PAST: 4}  # for tracing; no size is fixed by it
Shape = tuple[str | int, ...]  # of a tensor; a word is an axis of any size


class EncoderGraph(nn.Module):
    """encoder_model.onnx."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Two (B, S), the mask 0 at padding -> last_hidden_state (B, S, D)."""
        tokens = input_ids.masked_fill(attention_mask == 0, self.encoder.padding_idx)
        return self.encoder(tokens).features


class GraphCache(Cache):
    """The cache of a graph, which gets the new tokens alone; `past`: see `DecoderGraph`."""

    def __init__(self, past: tuple[Tensor, ...]) -> None:
        super().__init__()
        fours = zip(*[iter(past)] * 4, strict=True)
        self.layers = [(KeysAndValues(a, b), KeysAndValues(c, d)) for a, b, c, d in fours]
        self.length = past[0].size(2) if past else 0

    def begin(self, tokens: Tensor, *unused: object) -> tuple[Tensor, Tensor, Tensor]:
        """See `Cache`; there is no padding."""
        past, self.length = self.length, self.length + tokens.size(1)
        positions = torch.arange(past, self.length, device=tokens.device)
        return tokens, positions, causal_mask(tokens.size(1), self.length)


class DecoderGraph(nn.Module):
    """decoder_model.onnx, and with `with_past` decoder_with_past_model.onnx."""

    def __init__(self, decoder: Decoder, with_past: bool) -> None:
        super().__init__()
        self.decoder = decoder
        self.with_past = with_past

    def forward(self, ids: Tensor, source_mask: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The target shifted right, without its cached part (B, T), and a mask (B, S) -> logits.

        The mask is 0 at padding. `inputs`: the encoder output (B, S, D); with `with_past`, of each
        layer the keys (B, H, P, K) and values (B, H, P, V) of the target, then those of the source.
        Returned are logits (B, T, vocabulary), the keys and values in that order, without the
        source's with `with_past`, and the last layer's attention to the source (B, H, T, S).
        """
        cache = GraphCache(inputs if self.with_past else ())
        # With cached keys and values, the layers don't read the encoder output.
        memory = ids.new_empty(0) if self.with_past else inputs[0]
        visible = source_mask.bool()[:, None, None]
        last = len(self.decoder.layers) - 1
        output = self.decoder(ids, memory, visible, cache, alignment_layer=last)
        kept = [entry for pair in cache.layers for entry in pair[: 1 if self.with_past else 2]]
        present = [x for entry in kept for x in (entry.key, entry.value)]
        return self.decoder.project(output.features), *present, *output.cross_weights


def write_graphs(model: EncoderDecoder, folder: Path) -> None:
    """Write the three graphs of a model of the plain modules, in float32, into a folder."""
    decoder, layers = model.decoder, len(model.decoder.layers)
    words, width = decoder.projection.weight.shape
    attention: Any = decoder.layers[0].self_attention
    heads = attention.heads

    def keys_and_values(prefix: str, length: str) -> dict[str, Shape]:
        """Their shapes by name; `length` is the target's."""
        shapes: dict[str, Shape] = {}
        for name in onnx_engine.past_names(prefix, layers):
            linear = attention.key if name.endswith("key") else attention.value
            axis = length if ".decoder." in name else SOURCE
            shapes[name] = (BATCH, heads, axis, linear.out_features // heads)
        return shapes

    source: dict[str, Shape] = {"input_ids": (BATCH, SOURCE), "attention_mask": (BATCH, SOURCE)}
    memory: Shape = (BATCH, SOURCE, width)
    _write(EncoderGraph(model.encoder), source, {"last_hidden_state": memory}, folder / ENCODER)
    target: dict[str, Shape] = {
        "input_ids": (BATCH, TARGET),
        "encoder_attention_mask": (BATCH, SOURCE),
    }
    present = keys_and_values("present", f"{PAST} + {TARGET}")
    logits: dict[str, Shape] = {"logits": (BATCH, TARGET, words)}
    attention_name = onnx_engine.cross_attention_name(layers)
    weights: dict[str, Shape] = {attention_name: (BATCH, heads, TARGET, SOURCE)}
    inputs = target | {"encoder_hidden_states": memory}
    _write(DecoderGraph(decoder, False), inputs, logits | present | weights, folder / DECODER)
    inputs = target | keys_and_values("past_key_values", PAST)
    present = {name: shape for name, shape in present.items() if ".decoder." in name}
    outputs = logits | present | weights
    _write(DecoderGraph(decoder, True), inputs, outputs, folder / DECODER_WITH_PAST)


def _write(
    graph: nn.Module, inputs: dict[str, Shape], outputs: dict[str, Shape], path: Path
) -> None:
    """Trace a graph and write it; inputs of two axes are token numbers and masks."""
    sizes = [[EXAMPLE[n] if isinstance(n, str) else n for n in shape] for shape in inputs.values()]
    types = [torch.long if len(shape) == 2 else None for shape in sizes]
    example = [torch.ones(n, dtype=t, device="cpu") for n, t in zip(sizes, types, strict=True)]
    axes = {
        name: {axis: size for axis, size in enumerate(shape) if isinstance(size, str)}
        for name, shape in (inputs | outputs).items()
    }
    with warnings.catch_warnings(), torch.no_grad():
        # PyTorch's newer exporter, which the warnings name, needs another package.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph.eval(),  # PyTorch restores the mode of every part
            tuple(example),
            str(path),
            dynamo=False,
            opset_version=OPSET,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes=axes,
        )


def export_to_onnx(model: Path, output: Path, quantization: str | None = None) -> Path:
    """Write a translation model's bundle as ONNX graphs, and return the path of its weights.

    `output` is a new folder, `quantization` "int8" or None for float32.
    """
    for module in ("onnxruntime", "onnx"):
        optional(module, onnx_engine.ONNX_PACKAGES)
    if quantization not in (None, "int8"):
        raise UserError(f"onnxruntime has no --quantization {quantization}: give int8 or none")
    settings, (trained, sizes, source, target, *_) = exported_model.read_model(model)
    exported_model.refuse_departures("an ONNX export", sizes)
    # Of the plain modules: a kernel may be none of the exporter's operators.
    transformer = build(sizes, source, target).eval()
    transformer.load_state_dict(trained.state_dict())
    with exported_model.new_folder(output) as folder:
        exported_model.copy_bundle_files(model, settings, folder)
        config = marian_config(sizes, len(source), len(target))
        config[OURS] |= {name: getattr(sizes, name) for name in onnx_engine.POSITIONS}
        write_json(folder / "config.json", config)
        write_json(folder / "generation_config.json", generation_config(settings, sizes))
        write_graphs(transformer, folder)
        exported_model.require_equal("onnxruntime", trained, partial(_log_p, folder))
        if quantization is not None:
            _quantize(folder)
    return weights_path(model)


def _log_p(folder: Path, pairs: Any) -> Tensor:
    """By all three graphs: the first half of the targets without a past, the second with one."""
    model = onnx_engine.OnnxTransformer(folder, PAD, torch.get_num_threads())
    encoded, half = model.encode(pairs.source), pairs.previous.size(1) // 2
    first = model.first.run({"input_ids": pairs.previous[:, :half], **encoded})
    past = {name: first[name.replace("past_key_values", "present")] for name in model.past}
    inputs = {name: encoded[name] for name in model.next.inputs if name in encoded} | past
    rest = model.next.run({"input_ids": pairs.previous[:, half:], **inputs})
    return pairs.log_p(torch.cat((first["logits"], rest["logits"]), dim=1))


def _quantize(folder: Path) -> None:
    """Make the matrix products' weights int8, of 7 bits: some processors add two in 16 bits."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # the quantizer's advice
    try:
        for path in (folder / name for name in (ENCODER, DECODER, DECODER_WITH_PAST)):
            quantize_dynamic(
                path,
                path,
                op_types_to_quantize=["MatMul"],
                per_channel=True,
                reduce_range=True,
                weight_type=QuantType.QInt8,
            )
    finally:
        logging.disable(before)
