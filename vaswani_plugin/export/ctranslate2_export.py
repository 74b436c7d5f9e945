"""Our Transformer as a CTranslate2 model, by CTranslate2's specification API.

CTranslate2's heads have one width for queries, keys and values. If d_k and d_v differ, the narrower
projections are padded with rows of zeros, and W^O with columns of zeros. This changes no dot
product and no output. The scores are still divided by the sqrt(d_k) of the model.

Axes: H heads, D d_model, V vocabulary, P positions.
"""

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vaswani_plugin.export.exported_model import (
    check_new_folder,
    departures,
    languages_of_data,
    model_options,
    new_folder,
    other_bundle_files,
    require_finite,
    require_known_modules,
    translation_settings,
)
from vaswani_plugin.export.fairseq_weights import Weights
from vaswani_plugin.inference.checkpoint_models import make_transformer, read_parts
from vaswani_plugin.inference.checkpoints import load_checkpoint, untrusted
from vaswani_plugin.inference.ctranslate2_engine import (
    INT8_FITS,
    PADDING,
    import_ctranslate2,
)
from vaswani_plugin.model.build import fairseq_sinusoids
from vaswani_plugin.model.configuration import Configuration, head_sizes
from vaswani_plugin.modules.positions import sinusoids
from vaswani_plugin.text.dictionary import dictionary_name
from vaswani_plugin.text.settings import weights_path

INT8 = ("int8", "int8_float32")


def transformer_spec(weights: Weights, cfg: Configuration, source: list[str], target: list[str]):
    """The model as a `ctranslate2.specs.TransformerSpec`.

    Args:
        weights: a state dictionary of `vaswani_transformer`.
        cfg: its sizes.
        source: the symbols of the source dictionary, in order.
        target: the symbols of the target dictionary.

    Raises:
        ValueError: CTranslate2 can't express the model, or a dictionary doesn't fit it.
    """
    specs = import_ctranslate2().specs  # imported when it is first used
    if found := departures(cfg):
        raise ValueError(f"CTranslate2 has no counterpart of {found[0]}")
    width = max(head_sizes(cfg))
    given = {"pre_norm": False, "activation": specs.common_spec.Activation.RELU}
    if width * cfg.heads != cfg.d_model:
        given["head_dim"] = width
    spec = specs.TransformerSpec(
        specs.transformer_spec.TransformerEncoderSpec(cfg.encoder_layers, cfg.heads, **given),
        specs.transformer_spec.TransformerDecoderSpec(
            cfg.decoder_layers,
            cfg.heads,
            alignment_heads=0,  # the mean of all heads
            **given,
        ),
    )
    writer = _Writer(weights, cfg, width)
    for side in ("encoder", "decoder"):
        writer.write_side(getattr(spec, side), side)
    spec.decoder.projection.weight = writer.array("decoder.projection.weight")
    spec.register_source_vocabulary(_vocabulary(source, weights["encoder.embedding.weight"]))
    spec.register_target_vocabulary(_vocabulary(target, weights["decoder.embedding.weight"]))
    spec.config.decoder_start_token = spec.config.eos_token
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = cfg.layer_norm_eps
    # CTranslate2 checks these limits too late or not at all.
    for side in ("source", "target"):
        spec.config.add_attribute(f"max_{side}_positions", getattr(cfg, f"max_{side}_positions"))
    spec.config.add_attribute("target_words", len(target))
    return spec


def _vocabulary(symbols: list[str], embedding: Tensor) -> list[str]:
    if len(symbols) != len(embedding):
        raise ValueError(
            f"the model embeds {len(embedding)} words and the dictionary has {len(symbols)}; "
            "give the dictionaries that it was trained with"
        )
    vocabulary = [PADDING if symbol == "<pad>" else symbol for symbol in symbols]
    seen = set()
    for symbol in vocabulary:
        if symbol in seen:
            raise ValueError(f"the dictionary holds {symbol!r} twice, CTranslate2 takes it once")
        seen.add(symbol)
    return vocabulary


class _Writer:
    """Writes weights into a specification."""

    def __init__(self, weights: Weights, cfg: Configuration, width: int) -> None:
        self.weights = weights
        self.cfg = cfg
        self.width = width  # of a head

    def array(self, name: str) -> np.ndarray:
        # A copy, because CTranslate2 quantizes in place.
        return self.weights[name].detach().float().numpy().copy()

    def write_side(self, spec, side: str) -> None:
        embeddings = spec.embeddings[0] if side == "encoder" else spec.embeddings
        embeddings.weight = self.array(f"{side}.embedding.weight")
        spec.scale_embeddings = math.sqrt(self.cfg.d_model)
        spec.position_encodings.encodings = self.positions(side)
        for number, layer in enumerate(spec.layer):
            self.write_layer(layer, f"{side}.layers.{number}")

    def positions(self, side: str) -> np.ndarray:
        """The table of positional encodings (P, D)."""
        if self.cfg.positions == "learned":
            return self.array(f"{side}.positions.weight")
        encoding = sinusoids if self.cfg.positions == "sinusoidal" else fairseq_sinusoids
        encoder = side == "encoder"
        rows = self.cfg.max_source_positions if encoder else self.cfg.max_target_positions
        return encoding(torch.arange(rows, device="cpu"), self.cfg.d_model).float().numpy()

    def write_layer(self, spec, layer: str) -> None:
        self.write_attention(spec.self_attention, f"{layer}.self_attention", fuse_query=True)
        if hasattr(spec, "attention"):
            self.write_attention(spec.attention, f"{layer}.cross_attention", fuse_query=False)
        self.write_norm(spec.ffn.layer_norm, f"{layer}.feed_forward_norm.norm")
        for linear, name in ((spec.ffn.linear_0, "w_1"), (spec.ffn.linear_1, "w_2")):
            linear.weight = self.array(f"{layer}.feed_forward.{name}.weight")
            linear.bias = self.array(f"{layer}.feed_forward.{name}.bias")

    def write_norm(self, spec, norm: str) -> None:
        spec.gamma = self.array(f"{norm}.weight")
        spec.beta = self.array(f"{norm}.bias")

    def write_attention(self, spec, attention: str, fuse_query: bool) -> None:
        """Self-attention has one matrix for Q, K, V; cross-attention one for Q and one for K, V."""
        parts = {name: self.widened(attention, name) for name in ("query", "key", "value")}
        groups = [["query", "key", "value"]] if fuse_query else [["query"], ["key", "value"]]
        for linear, group in zip(spec.linear, groups, strict=False):
            linear.weight = np.concatenate([parts[name][0] for name in group])
            linear.bias = np.concatenate([parts[name][1] for name in group])
        output = self.array(f"{attention}.output.weight").T  # (H d_v, D)
        spec.linear[-1].weight = self.pad_heads(output).T.copy()
        spec.linear[-1].bias = self.array(f"{attention}.output.bias")
        spec.queries_scale = head_sizes(self.cfg)[0] ** -0.5
        self.write_norm(spec.layer_norm, f"{attention}_norm.norm")

    def widened(self, attention: str, name: str) -> tuple[np.ndarray, np.ndarray]:
        """A projection's weight (H width, D) and bias (H width,)."""
        weight = self.array(f"{attention}.{name}.weight")
        bias = self.array(f"{attention}.{name}.bias")
        return self.pad_heads(weight), self.pad_heads(bias[:, None])[:, 0]

    def pad_heads(self, rows: np.ndarray) -> np.ndarray:
        """Pad (H narrow, N) to (H width, N) with rows of zeros below each head's rows."""
        heads = rows.reshape(self.cfg.heads, -1, rows.shape[1])
        missing = self.width - heads.shape[1]
        return np.pad(heads, ((0, 0), (0, missing), (0, 0))).reshape(-1, rows.shape[1])


def to_int8(spec: Any) -> None:
    """Round each row of a specification's matrices to bytes, with its scale.

    CTranslate2's own rule makes the greatest weight 127. Without VNNI a processor adds the products
    of two neighbouring weights with two inputs (0 to 255) in 16 bits, which overflows beyond 128
    for the sum of the weights. Here the scale is the greatest that avoids that.
    """
    specs = import_ctranslate2().specs.model_spec

    def quantize(owner: Any, name: str, value: Any) -> None:
        key = name.rpartition("/")[2]
        if not isinstance(value, specs.NumpyVariable) or not hasattr(owner, f"{key}_scale"):
            return
        rows = value.numpy().astype(np.float32)
        signs = np.stack((rows.clip(min=0), (-rows).clip(min=0)))
        sums = signs[..., :-1] + signs[..., 1:]  # of neighbours of one sign
        greatest = np.maximum(np.abs(rows).max(axis=1), sums.max(axis=(0, 2), initial=0))
        scale = np.float32(127) / np.where(greatest > 0, greatest, 127).astype(np.float32)
        bytes_ = np.rint(rows * scale[:, None]).astype(np.int8)
        setattr(owner, key, specs.NumpyVariable(bytes_))
        setattr(owner, f"{key}_scale", specs.NumpyVariable(scale))

    specs.visit_spec(spec, quantize)


def write_model(spec, output: Path, quantization: str | None, files: list[Path]) -> None:
    """Write a CTranslate2 model and copies of `files` into a new folder, completely or not at all.

    Args:
        spec: the result of `transformer_spec`.
        output: the folder; it may exist if it is empty.
        quantization: CTranslate2's name of it, such as "int8"; None for float32.
        files: the files that make the folder a bundle.

    Raises:
        ValueError: `output` is not empty.
        OSError: it can't be written.
    """
    check_new_folder(output)
    spec.validate()
    if quantization in INT8:
        spec.optimize()
        to_int8(spec)
        spec.config.add_attribute(INT8_FITS, True)
    else:
        spec.optimize(quantization=quantization)
    with new_folder(output) as folder:
        spec.save(str(folder))
        for file in files:
            shutil.copyfile(file, folder / file.name)


def export_to_ctranslate2(
    model: Path, output: Path, data_bin: Path | None = None, quantization: str | None = None
) -> Path:
    """Write a trained model for CTranslate2; from a bundle, the folder becomes a bundle, too.

    Args:
        model: a bundle or a checkpoint.
        output: the folder to make.
        data_bin: with a checkpoint: the folder of its dictionaries.
        quantization: as in `write_model`.

    Returns:
        The file that the weights were read from.

    Raises:
        ValueError: CTranslate2 is not installed or can't express the model, or the files don't fit
            together.
        OSError: a file can't be read or written.
    """
    import_ctranslate2()  # if it is missing, fail before any work
    is_bundle = model.is_dir()
    path = weights_path(model) if is_bundle else model
    state = load_checkpoint(path)
    with untrusted(path):
        model_options(state)  # refuses other models
        require_finite(state["model"])
        if is_bundle:
            if data_bin is not None:
                raise ValueError("--data-bin goes with a checkpoint; a bundle has its dictionaries")
            folder, settings = model, translation_settings(model)
            languages = settings.source_language, settings.target_language
            files = other_bundle_files(folder, settings)
        else:
            if data_bin is None:
                raise ValueError("give its dictionaries with --data-bin, or a bundle as --model")
            folder, languages = data_bin, languages_of_data(data_bin, state["cfg"]["task"])
            files = [folder / dictionary_name(language) for language in sorted(set(languages))]
        sizes, source, target = read_parts(state, folder, languages)
        require_known_modules(make_transformer(sizes, source, target, state["model"], path))
        spec = transformer_spec(state["model"], sizes, source.symbols, target.symbols)
        write_model(spec, output, quantization, files)
    return path
