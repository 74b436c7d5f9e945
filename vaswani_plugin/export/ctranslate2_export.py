"""Our Transformer as a CTranslate2 model.

CTranslate2's converter of fairseq's models reads modules by fairseq's names of their parts. Here it
reads our weights under those names, so that it needs neither fairseq nor a checkpoint of its own.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vaswani_plugin.export import exported_model
from vaswani_plugin.inference import ctranslate2_engine
from vaswani_plugin.inference.ctranslate2_engine import PADDING, import_ctranslate2
from vaswani_plugin.model.configuration import Configuration, head_sizes
from vaswani_plugin.modules.embedding import FAIRSEQ_FIRST_POSITION, fairseq_sinusoids, sinusoids
from vaswani_plugin.text.dictionary import EOS, UNK
from vaswani_plugin.text.settings import weights_path

INT8 = ("int8", "int8_float32")


def transformer_spec(
    weights: Mapping[str, Tensor], cfg: Configuration, source: list[str], target: list[str]
) -> Any:
    """A state dictionary and its dictionaries' symbols as a `ctranslate2.specs.TransformerSpec`."""
    specs = import_ctranslate2().specs  # imported when it is first used
    from ctranslate2.converters import fairseq as converter

    remedy = "; --to onnx may have one"
    options = {"pre_norm": False, "activation": specs.common_spec.Activation.RELU}
    options |= exported_model.refuse_departures("CTranslate2", cfg, remedy=remedy)
    sides = specs.transformer_spec
    encoder = sides.TransformerEncoderSpec(cfg.encoder_layers, cfg.heads, **options)
    options["alignment_heads"] = 0  # attention is the mean of all heads
    decoder = sides.TransformerDecoderSpec(cfg.decoder_layers, cfg.heads, **options)
    spec = specs.TransformerSpec(encoder, decoder)
    modules = _modules(weights, cfg)
    converter.set_transformer_encoder(spec.encoder, modules.encoder)
    converter.set_transformer_decoder(spec.decoder, modules.decoder)
    for layer in (*spec.encoder.layer, *spec.decoder.layer):
        for attention in (layer.self_attention, getattr(layer, "attention", None)):
            if attention is not None:
                attention.queries_scale = head_sizes(cfg)[0] ** -0.5
    for side, symbols in (("source", source), ("target", target)):
        words = [PADDING if symbol == "<pad>" else symbol for symbol in symbols]
        getattr(spec, f"register_{side}_vocabulary")(words)
    spec.config.decoder_start_token = spec.config.eos_token
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = cfg.layer_norm_eps
    # CTranslate2 checks these limits too late or not at all.
    for side in ("source", "target"):
        spec.config.add_attribute(f"max_{side}_positions", getattr(cfg, f"max_{side}_positions"))
    spec.config.add_attribute("target_words", len(target))
    return spec


class _Module:
    """Weights by the parts of their dotted names, and what else the converter looks for."""

    bias = layer_norm = layernorm_embedding = project_in_dim = project_out_dim = None

    def __iter__(self) -> Iterator[Any]:
        """The layers of a list, in order."""
        return (vars(self)[number] for number in sorted(vars(self), key=int))


def _modules(weights: Mapping[str, Tensor], cfg: Configuration) -> Any:
    """fairseq's modules of our model, with copies in float32: CTranslate2 quantizes in place."""
    root: Any = _Module()
    for name, tensor in exported_model.to_fairseq_weights(weights).items():
        *owners, last = name.split(".")
        owner = root
        for part in owners:
            owner = vars(owner).setdefault(part, _Module())
        setattr(owner, last, tensor.detach().float().clone())
    for side in exported_model.SIDES:
        module = getattr(root, side)
        module.embed_scale = math.sqrt(cfg.d_model)
        if cfg.positions != "learned":
            module.embed_positions = _Module()
            encoding = sinusoids if cfg.positions == "sinusoidal" else fairseq_sinusoids
            rows = cfg.max_source_positions if side == "encoder" else cfg.max_target_positions
            table = encoding(torch.arange(rows, device="cpu"), cfg.d_model).float()
            unread = table.new_zeros(FAIRSEQ_FIRST_POSITION, cfg.d_model)
            module.embed_positions.weight = torch.cat((unread, table))
        module.embed_positions.weights = module.embed_positions.weight
        module.embed_positions.padding_idx = FAIRSEQ_FIRST_POSITION - 1
    return root


def to_int8(spec: Any) -> None:
    """Round each row of a specification's matrices to bytes, with its scale.

    CTranslate2 makes the greatest weight 127. Without VNNI a processor adds the products of two
    neighbouring weights with two inputs (0 to 255) in 16 bits, which overflows if the weights' sum
    is beyond 128. Here the scale is the greatest that avoids that.
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
        setattr(owner, key, specs.NumpyVariable(np.rint(rows * scale[:, None]).astype(np.int8)))
        setattr(owner, f"{key}_scale", specs.NumpyVariable(scale))

    specs.visit_spec(spec, quantize)


def write_spec(spec: Any, folder: Path, quantization: str | None = None) -> None:
    """Write a specification; `quantization` is CTranslate2's name of it, None float32."""
    spec.validate()
    if quantization in INT8:
        spec.optimize()
        to_int8(spec)
        spec.config.add_attribute(ctranslate2_engine.INT8_FITS, True)
    else:
        spec.optimize(quantization=quantization)
    spec.save(str(folder))


def export_to_ctranslate2(model: Path, output: Path, quantization: str | None = None) -> Path:
    """Write a translation model's bundle for CTranslate2, and return the path of its weights.

    `output` is a new folder, `quantization` CTranslate2's name of it, None for float32.
    """
    settings, loaded = exported_model.read_model(model)
    source, target = loaded.source, loaded.target
    pairs = exported_model.random_pairs(loaded.model)
    for dictionary, side in zip((source, target, target), pairs, strict=True):
        side[side == dictionary.index(PADDING)] = UNK  # no word there

    def log_p(pairs: exported_model.Pairs) -> Tensor:
        threads = torch.get_num_threads()
        engine = ctranslate2_engine.CTranslate2Engine(folder, "cpu", "float32", threads)
        sides = (source.symbols, pairs.source), (target.symbols, pairs.target)
        texts = ([[words[n] for n in row if n > EOS] for row in x.tolist()] for words, x in sides)
        scores = [torch.tensor(each, device="cpu") for each in engine.score(*texts)]
        return nn.utils.rnn.pad_sequence(scores, batch_first=True)

    weights = loaded.model.state_dict()
    with exported_model.new_folder(output) as folder:
        exported_model.copy_bundle_files(model, settings, folder)
        for number_type in dict.fromkeys((None, quantization)):
            spec = transformer_spec(weights, loaded.sizes, source.symbols, target.symbols)
            write_spec(spec, folder, number_type)
            if number_type is None:  # before it is quantized
                exported_model.require_equal("CTranslate2", loaded.model, log_p, pairs)
    return weights_path(model)
