"""Hugging Face's MarianMT: a bundle of a translation model for transformers.

Both models are post-norm, with ReLU, embeddings times sqrt(d_model) and the sinusoids of section
3.5. There are two differences:

* The paper interleaves sines and cosines, Marian has all sines first: a permutation of the model's
  D columns turns one into the other.
* Marian's layer normalization has epsilon 1e-5, ours 1e-6 as a rule. Normalizing c x with epsilon
  c^2 e gives the same as normalizing x with epsilon e. So the residual stream between the first and
  the last normalization of a stack is multiplied by c, a power of two, and the weights that read it
  are divided by c. This changes no bit of a mantissa, and the inverse gives the same weights.

The tokenizer of raw word pieces is `MarianTokenizer` with the bundle's sentencepiece model;
`huggingface_tokenizer` writes one for Moses' rules with subword-nmt's BPE.

Axes: D d_model, H heads, K d_k, V vocabulary.
"""

import math
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.export.checkpoints import shared_owners
from vaswani_plugin.export.exported_model import (
    SIDES,
    USE,
    TranslationModel,
    Weights,
    departures,
    generation_defaults,
    new_folder,
    read_model,
    refuse,
    to_fairseq_weights,
    uneven_heads,
    write_card,
)
from vaswani_plugin.export.huggingface_language_model import export_language_model
from vaswani_plugin.export.huggingface_tokenizer import FILE as TOKENIZER
from vaswani_plugin.export.huggingface_tokenizer import (
    bpe_tokenizer,
    require_one_dictionary,
    tokenizer_config,
)
from vaswani_plugin.export.model_card import front_matter
from vaswani_plugin.model.configuration import Configuration
from vaswani_plugin.search.options import PAPER_DECODING
from vaswani_plugin.text.dictionary import BOS, EOS, PAD, UNK, Dictionary
from vaswani_plugin.text.outputs import write_json
from vaswani_plugin.text.settings import (
    OURS,
    SAFETENSORS,
    Settings,
    TextSettings,
    TreeSettings,
    read_settings,
)

_PROJECTION, _HEAD = "decoder.output_projection.weight", "lm_head.weight"
_EMBEDDINGS = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
MARIANS_EPSILON = 1e-5
NEVER = -1e9
"""A logit whose probability is 0 in float32."""


def to_marian(weights: Weights, epsilon: float) -> Weights:
    """Our weights, of layer norms with this epsilon, under `MarianMTModel`'s names.

    Positions must be sinusoidal. Weights that share memory still do.
    """
    order = sines_first(weights["decoder.embedding.weight"].size(1))
    factor = stream_factor(epsilon)
    named = {
        _HEAD if name == _PROJECTION else f"model.{name}": tensor
        for name, tensor in to_fairseq_weights(weights).items()
    }
    return _converted(named, order, factor)


def with_more_rows(weights: Weights, rows: int, unknown: int) -> Weights:
    """Add symbols that the model reads as <unk> and never writes, to `rows` in all.

    `weights` are of `MarianMTModel`, with one matrix for all embeddings; `unknown` is <unk>'s row.
    """
    matrix = weights[_HEAD]
    more = rows - len(matrix)
    longer = torch.cat((matrix, matrix[unknown].expand(more, -1)))  # (V + more, D)
    bias = torch.cat((matrix.new_zeros(len(matrix)), matrix.new_full((more,), NEVER)))
    changed = dict.fromkeys((*_EMBEDDINGS, _HEAD), longer)
    return {**weights, **changed, "final_logits_bias": bias[None]}


def sines_first(d_model: int) -> Tensor:
    """The columns of the paper's sinusoids in Marian's order: 0, 2, 4, ..., 1, 3, 5, ..."""
    columns = torch.arange(d_model, device="cpu")
    return torch.cat((columns[0::2], columns[1::2]))


def stream_factor(epsilon: float) -> float:
    """c: the power of two for which c^2 epsilon is nearest to Marian's epsilon."""
    return 2.0 ** round(math.log2(MARIANS_EPSILON / epsilon) / 2)


def _converted(weights: Weights, order: Tensor, factor: float) -> Weights:
    last = {side: _last_norm(weights, side) for side in SIDES}
    done: dict[int, Tensor] = {}
    result = {}
    for name, tensor in weights.items():
        if tensor.data_ptr() not in done:
            moved = tensor[_columns(name, order)]
            done[tensor.data_ptr()] = (moved * factor ** _exponent(name, last)).contiguous()
        result[name] = done[tensor.data_ptr()]
    return result


def _last_norm(weights: Weights, side: str) -> str:
    """The prefix of the names of a stack's last normalization, whose output is not multiplied."""
    layers = {
        int(name.split(".")[3]) for name in weights if name.startswith(f"model.{side}.layers")
    }
    return f"model.{side}.layers.{max(layers)}.final_layer_norm."


def _columns(name: str, order: Tensor) -> tuple | Tensor:
    """The index that orders the model's columns in a weight of Marian's."""
    part, kind = name.split(".")[-2:]
    if kind == "weight" and (part in _READS or part in ("embed_tokens", "lm_head")):
        return slice(None), order  # (H K, D), (d_ff, D) or (V, D)
    return slice(None) if part in _READS else order  # (H K,) and (d_ff,); (D, ...)


_READS = ("q_proj", "k_proj", "v_proj", "fc1")


def _exponent(name: str, last_norm: dict[str, str]) -> int:
    """1 where a weight writes the multiplied stream, -1 where it reads it, 0 elsewhere."""
    part, kind = name.split(".")[-2:]
    if name.startswith(tuple(last_norm.values())) or part in ("embed_tokens", "lm_head"):
        return 0
    if ".layers.0.self_attn." in name:  # from the embeddings to the first normalization
        return 0
    if part in _READS:
        reads_encoder = "encoder_attn" in name and part != "q_proj"
        return 0 if kind == "bias" or reads_encoder else -1
    return 1  # out_proj, fc2 and the norms


MOST_POSITIONS = 512
"""Longest output of `generate` in tokens, as in Marian's published models."""


def export_to_huggingface(model: Path, output: Path, with_tokenizer: bool = True) -> Path:
    """Write a bundle as a folder that transformers loads with its own code, by its kind of model.

    Args:
        model: the bundle of a translation model or a language model.
        output: the folder to make.
        with_tokenizer: False writes the model and its vocabulary only.

    Returns:
        The file that the weights were read from.

    Raises:
        UserError: `model` is no bundle, Hugging Face has no such architecture or no tokenizer that
            splits text in the same way, or `output` is not empty.
        OSError: a file can't be read or written.
    """
    settings = read_settings(model)
    if isinstance(settings, TreeSettings):
        raise UserError(
            f"{model} holds a parser, and Hugging Face has no search for well-formed trees"
        )
    if isinstance(settings, TextSettings):
        return export_language_model(model, output, with_tokenizer)
    return _export_translation_model(read_model(model), output, with_tokenizer)


def _export_translation_model(model: TranslationModel, output: Path, with_tokenizer: bool) -> Path:
    path, settings, sizes, source, target, _ = model
    _refuse_inexpressible(sizes)
    weights = to_marian(model.weights, sizes.layer_norm_eps)
    tokenizer = None
    if with_tokenizer and not _has_raw_pieces(settings):
        require_one_dictionary(sizes.share_embeddings)
        tokenizer = bpe_tokenizer(path.parent, settings, source)
        weights = with_more_rows(weights, len(tokenizer["model"]["vocab"]), UNK)
    with new_folder(output) as folder:
        _write_weights(weights, folder)
        words = (len(weights[name]) for name in _EMBEDDINGS)
        write_json(folder / "config.json", marian_config(sizes, *words))
        write_json(folder / "generation_config.json", generation_config(settings, sizes))
        write_json(folder / "vocab.json", numbered(source))
        if sizes.share_embeddings != "all":
            write_json(folder / "target_vocab.json", numbered(target))
        if with_tokenizer:
            _write_tokenizer(path.parent, settings, sizes, tokenizer, folder)
        write_card(
            folder,
            f"{settings.source_language}-{settings.target_language}, a Transformer of "
            "vaswani_plugin",
            front_matter(settings, "translation", library_name="transformers"),
            f"{sizes.encoder_layers} + {sizes.decoder_layers} layers, d_model {sizes.d_model}, "
            f"d_ff {sizes.d_ff}, {sizes.heads} heads, exported as MarianMT. Between its "
            f"normalizations it carries {stream_factor(sizes.layer_norm_eps):g} times the numbers "
            "of the original, so that Marian's epsilon of 1e-5 has the effect of the original's.",
            USE.format("AutoModelForSeq2SeqLM", "A sentence.")
            if with_tokenizer
            else _NO_TOKENIZER.format(settings),
        )
    return path


_NO_TOKENIZER = (
    "The tokenizer is not part of it: text is prepared by {0.tokenizer} and {0.subwords}. "
    "`vocab.json` numbers the subwords; a source ends with `</s>`."
)


def _has_raw_pieces(settings: Settings) -> bool:
    """Whether the text is cut into sentencepiece's pieces and nothing else."""
    rules = settings.tokenizer != "none" or settings.lowercase or settings.normalize_punctuation
    return settings.subwords == "sentencepiece" and not rules


def _refuse_inexpressible(sizes: Configuration) -> None:
    """Refuse a model that Marian can't express; name the option and an export that supports it."""
    found = uneven_heads(sizes)
    if sizes.positions != "sinusoidal":
        found.append(f"--positions {sizes.positions}")
    found += departures(sizes)
    if sizes.layer_norm_eps > MARIANS_EPSILON:
        found.append(f"--layer-norm-eps {sizes.layer_norm_eps:g}")
    other = "fairseq" if found and "--positions" in found[0] else "ctranslate2"
    remedy = "" if departures(sizes) else f"; --to {other} can"
    refuse("Hugging Face's Marian", found, remedy)


def _write_weights(weights: Weights, folder: Path) -> None:
    """Write each tensor once; transformers ties shared tensors by its configuration."""
    weights = dict(weights)
    owners = shared_owners(weights)
    if owners["model.decoder.embed_tokens.weight"] == owners["model.encoder.embed_tokens.weight"]:
        weights = {"model.shared.weight": weights["model.encoder.embed_tokens.weight"], **weights}
        owners = shared_owners(weights)
    kept = {name: weights[name] for name in dict.fromkeys(owners.values())}
    save_file(kept, folder / SAFETENSORS, metadata={"format": "pt"})


def marian_config(sizes: Configuration, source_words: int, target_words: int) -> dict[str, Any]:
    """The content of config.json: `MarianConfig`'s fields, and our own under "vaswani"."""
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "vocab_size": source_words,
        "decoder_vocab_size": target_words,
        "share_encoder_decoder_embeddings": sizes.share_embeddings == "all",
        "tie_word_embeddings": sizes.share_embeddings != "none",
        "d_model": sizes.d_model,
        "encoder_layers": sizes.encoder_layers,
        "decoder_layers": sizes.decoder_layers,
        **{f"{side}_ffn_dim": sizes.d_ff for side in SIDES},
        **{f"{side}_attention_heads": sizes.heads for side in SIDES},
        "max_position_embeddings": max(sizes.max_source_positions, sizes.max_target_positions),
        "activation_function": "relu",
        "scale_embedding": True,
        "dropout": sizes.dropout,
        "attention_dropout": sizes.attention_dropout,
        "activation_dropout": sizes.activation_dropout,
        "bos_token_id": BOS,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "decoder_start_token_id": EOS,
        "forced_eos_token_id": None,
        OURS: {"layer_norm_eps": sizes.layer_norm_eps},
    }


def generation_config(settings: Settings, sizes: Configuration) -> dict[str, Any]:
    """The content of generation_config.json: the paper's beam and length penalty (section 6.1).

    Hugging Face divides log P by |Y|^alpha, the paper by ((5 + |Y|) / 6)^alpha.
    """
    return {
        "num_beams": settings.beam or PAPER_DECODING["beam"],
        "length_penalty": PAPER_DECODING["lenpen"],
        "early_stopping": False,
        "min_length": 2,  # the start and one subword: no empty output
        "max_length": min(MOST_POSITIONS, sizes.max_target_positions),
        **generation_defaults(),
        "decoder_start_token_id": EOS,
    }


def numbered(dictionary: Dictionary) -> dict[str, int]:
    """The content of vocab.json: the number of each symbol."""
    if len(dictionary.indices) != len(dictionary):
        raise UserError("a dictionary holds a symbol twice, and a tokenizer takes it once")
    return dictionary.indices


def _write_tokenizer(
    model: Path,
    settings: Settings,
    sizes: Configuration,
    tokenizer: dict[str, Any] | None,
    folder: Path,
) -> None:
    """Write `tokenizer` as tokenizer.json; None: Marian's tokenizer with the bundle's pieces."""
    config = tokenizer_config(sizes.max_source_positions)
    config["source_lang"] = settings.source_language
    config["target_lang"] = settings.target_language
    if tokenizer is not None:
        write_json(folder / TOKENIZER, tokenizer)
    else:
        for name in ("source.spm", "target.spm"):
            shutil.copyfile(model / str(settings.codes), folder / name)
        config["tokenizer_class"] = "MarianTokenizer"
        config["separate_vocabs"] = sizes.share_embeddings != "all"
    write_json(folder / "tokenizer_config.json", config)
