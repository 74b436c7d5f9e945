"""Imports a MarianMT model of Hugging Face's as a bundle, to translate with it or fine-tune it."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.export.checkpoints import save_checkpoint
from vaswani_plugin.export.exported_model import Weights, new_folder, require_finite
from vaswani_plugin.export.huggingface_export import MARIANS_EPSILON, from_marian
from vaswani_plugin.inference.bundle import TRANSFORMER
from vaswani_plugin.inference.checkpoints import untrusted
from vaswani_plugin.inference.models import make_model
from vaswani_plugin.model.configuration import Configuration
from vaswani_plugin.text.dictionary import (
    BOS,
    EOS,
    PAD,
    SPECIAL_SYMBOLS,
    Dictionary,
    dictionary_name,
)
from vaswani_plugin.text.lines import read_json
from vaswani_plugin.text.settings import MODEL, OURS, SAFETENSORS, SETTINGS, Settings

CODES = "sentencepiece.model"
EXPRESSED = {"model_type": "marian", "activation_function": "relu", "scale_embedding": True}
"""Values that config.json must have for our Transformer to compute the same."""
EMBEDDINGS = ("encoder.embedding.weight", "decoder.embedding.weight", "decoder.projection.weight")
_SPECIAL = ("pad_token_id", "eos_token_id", "decoder_start_token_id")
_CONSTRAINTS = (
    *("forced_bos_token_id", "suppress_tokens", "begin_suppress_tokens", "bad_words_ids"),
    *("no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "repetition_penalty", "do_sample"),
    *("encoder_repetition_penalty", "diversity_penalty", "sequence_bias", "force_words_ids"),
    *("exponential_decay_length_penalty", "guidance_scale"),
)
"""Fields by which `generate` does not write the best words; None, False, 0, 1 and [] don't count.
The others are those of the search, which here is the paper's, with their beam."""


def import_from_huggingface(
    folder: Path, output: Path, source_lang: str | None = None, target_lang: str | None = None
) -> dict[str, Any]:
    """Make a bundle from a folder that `MarianMTModel.save_pretrained` or our export wrote.

    Args:
        folder: with config.json, model.safetensors, vocab.json, source.spm, target.spm and
            tokenizer_config.json.
        output: the bundle to make.
        source_lang: source language; None: as in tokenizer_config.json.
        target_lang: target language; None: as in tokenizer_config.json.

    Returns:
        The options of the model.

    Raises:
        ValueError: a file is missing or damaged, or our Transformer can't express the model.
        OSError: a file can't be read or written.
    """
    from vaswani_plugin.export.stock_fairseq import imported_checkpoint

    config = _read_json(folder / "config.json")
    path = folder / "generation_config.json"
    generation = _read_json(path) if path.is_file() else {}
    _refuse_other_models(config, folder)
    _refuse_constraints(config, folder / "config.json")
    _refuse_constraints(config | generation, path)
    # `generate` prefers generation_config.json.
    config |= {name: generation[name] for name in _SPECIAL if generation.get(name) is not None}
    tokens = _read_json(folder / "tokenizer_config.json")
    languages = source_lang or tokens.get("source_lang"), target_lang or tokens.get("target_lang")
    if not all(isinstance(language, str) for language in languages):
        raise UserError(
            f"{folder / 'tokenizer_config.json'} does not name both languages: give --source-lang "
            "and --target-lang"
        )
    if tokens.get("sp_model_kwargs"):
        raise UserError(
            f"{folder / 'tokenizer_config.json'}: sp_model_kwargs is "
            f"{tokens['sp_model_kwargs']!r}, which a bundle can't express: it can't be imported"
        )
    codes = _codes(folder)
    with untrusted(folder / SAFETENSORS):
        options = _options(config)
        weights, source, target = _read_model(folder, config, tokens, options)
        sizes = Configuration.from_checkpoint(options, {})
        require_finite(weights)
        path = folder / SAFETENSORS
        make_model(TRANSFORMER, sizes, source, target, weights, path)  # do they fit?
    settings = Settings(
        *languages,
        lowercase=False,
        normalize_punctuation=False,
        tokenizer="none",
        subwords="sentencepiece",
        codes=CODES,
        beam=generation.get("num_beams") or config.get("num_beams"),
    )
    state = imported_checkpoint(weights, options, languages, (source, target))
    with new_folder(output) as made:
        save_checkpoint(state, made / MODEL)
        shutil.copyfile(codes, made / CODES)
        for language, dictionary in zip(languages, (source, target), strict=True):
            lines = (f"{symbol} 1\n" for symbol in dictionary.symbols[len(SPECIAL_SYMBOLS) :])
            text = "".join(lines)
            (made / dictionary_name(language)).write_text(text, encoding="utf-8")
        (made / SETTINGS).write_text(settings.to_json(), encoding="utf-8")
    return options


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise UserError(f"{path} does not exist: give a folder of a MarianMT model")
    content = read_json(path, "download it again")
    if not isinstance(content, dict):
        raise UserError(f"{path}: holds no object: download it again")
    return content


def _refuse_other_models(config: Mapping[str, Any], folder: Path) -> None:
    for key, needed in EXPRESSED.items():
        if config.get(key) != needed:
            raise UserError(
                f"{folder / 'config.json'}: {key} is {config.get(key)!r}, and the paper's "
                f"Transformer has {needed!r}: it can't be imported"
            )
    for part in ("attention_heads", "ffn_dim"):
        if config.get(f"encoder_{part}") != config.get(f"decoder_{part}"):
            raise UserError(
                f"{folder / 'config.json'}: encoder_{part} and decoder_{part} differ, and ours "
                "are the same: it can't be imported"
            )


def _refuse_constraints(config: Mapping[str, Any], path: Path) -> None:
    """Refuse what makes `generate` write other words than our search finds."""
    refused = [n for n in _SPECIAL if type(config.get(n) or 0) is not int]
    for name in _CONSTRAINTS:
        value = config.get(name)
        is_padding = name == "bad_words_ids" and value == [[config.get("pad_token_id")]]
        if value is True or not (value in (None, 0, 1, []) or is_padding):
            refused.append(name)
    if refused:
        raise UserError(
            f"{path}: {refused[0]} is {config[refused[0]]!r}, which a bundle can't express: it "
            "can't be imported"
        )


def _codes(folder: Path) -> Path:
    """The one sentencepiece model of both languages."""
    files = [folder / name for name in ("source.spm", "target.spm")]
    for path in files:
        if not path.is_file():
            raise UserError(f"{path} does not exist: a bundle needs the subword model")
    if files[0].read_bytes() != files[1].read_bytes():
        raise UserError(
            f"{files[0]} and {files[1]} differ, and a bundle has one subword model for both "
            "languages: it can't be imported"
        )
    return files[0]


def _read_model(
    folder: Path, config: Mapping[str, Any], tokens: Mapping[str, Any], options: dict[str, Any]
) -> tuple[Weights, Dictionary, Dictionary]:
    """The weights under our names, and our dictionaries in the order of the weights' rows.

    Marian starts a target with <pad> as a rule, ours with </s>, which no decoder reads elsewhere.
    So the decoder's embedding becomes a matrix of its own, with <pad>'s row at </s>; this changes
    `options`.
    """
    path = folder / SAFETENSORS
    if not path.is_file():
        raise UserError(f"{path} does not exist: save the model as safetensors")
    try:
        theirs = load_file(path)
    except safetensors.SafetensorError as error:
        raise UserError(f"{path}: no weights of a model ({error}): download it again") from error
    bias = theirs.get("final_logits_bias")
    if bias is not None and bias.any():
        raise UserError(f"{path}: its projection has a bias, and the paper's has none")
    is_separate = bool(tokens.get("separate_vocabs"))
    files = [folder / "vocab.json", folder / ("target_" * is_separate + "vocab.json")]
    weights = from_marian(_untied(theirs, config), _epsilon(config))
    vocabularies, orders = [_read_json(file) for file in files], []
    for file, symbols, name in zip(files, vocabularies, EMBEDDINGS, strict=False):
        if sorted(symbols.values()) != list(range(len(weights[name]))):
            raise UserError(
                f"{file} should number the model's {len(weights[name])} rows, each once: it can't "
                "be imported"
            )
        if any(re.fullmatch(">>.+<<", symbol) for symbol in symbols):
            raise UserError(f"{file}: the model takes language codes (>>de<<): can't be imported")
        orders.append(_our_order(symbols, config))
    dictionaries = [Dictionary(symbols[len(SPECIAL_SYMBOLS) :]) for symbols, _ in orders]
    source_rows, target_rows = (rows for _, rows in orders)
    start = weights[EMBEDDINGS[1]][config.get("decoder_start_token_id", config["pad_token_id"])]
    ordered: dict[tuple[int, bool], Tensor] = {}  # shared rows stay shared
    for name, rows in zip(EMBEDDINGS, (source_rows, target_rows, target_rows), strict=True):
        key = weights[name].data_ptr(), rows is source_rows and is_separate
        ordered.setdefault(key, weights[name][rows])
        weights[name] = ordered[key]
    if "<s>" not in vocabularies[1]:
        weights[EMBEDDINGS[2]][BOS] = _never_written(weights, options, weights[EMBEDDINGS[2]][PAD])
    if not torch.equal(start, weights[EMBEDDINGS[1]][EOS]):
        options["share_embeddings"] = "none"
        weights |= {name: weights[name].clone() for name in EMBEDDINGS}
        weights[EMBEDDINGS[1]][EOS] = start
    return weights, *dictionaries


def _our_order(numbers: dict[str, int], config: Mapping[str, Any]) -> tuple[list[str], Tensor]:
    """A vocabulary in our order: its symbols, the special ones first, and the row of each."""
    by_row = {row: symbol for symbol, row in numbers.items()}
    special = [
        numbers.get("<s>", config["pad_token_id"]),  # never read
        config["pad_token_id"],
        config["eos_token_id"],
        numbers["<unk>"],
    ]
    others = [row for row in sorted(by_row) if row not in special]
    symbols = [*SPECIAL_SYMBOLS, *(by_row[row] for row in others)]
    return symbols, torch.tensor([*special, *others], device="cpu")


def _never_written(weights: Weights, options: Mapping[str, Any], otherwise: Tensor) -> Tensor:
    """A row of the projection whose logit is always -100: our dictionaries have <s>, theirs not.

    A normalized x sums to 0 over its columns, so that (x gain + bias) · (1 / gain) = sum(bias /
    gain). Where that is 0, as in a model without training, the row is `otherwise`.
    """
    norm = f"decoder.layers.{options['decoder_layers'] - 1}.feed_forward_norm.norm"
    gain, bias = (weights[f"{norm}.{part}"].double() for part in ("weight", "bias"))
    row = -100 / gain / (bias / gain).sum()
    is_usable = row.isfinite().all() and row.abs().max() < 1e4
    return row.to(otherwise.dtype) if is_usable else otherwise


def _untied(theirs: Weights, config: Mapping[str, Any]) -> Weights:
    """The weights with all three embeddings by name; the file may have one for several."""
    shared = theirs.get("model.shared.weight")
    weights = {name: tensor for name, tensor in theirs.items() if name != "model.shared.weight"}
    decoder = weights.get("model.decoder.embed_tokens.weight", shared)
    weights["model.decoder.embed_tokens.weight"] = decoder
    weights.setdefault("model.encoder.embed_tokens.weight", shared)
    if config.get("tie_word_embeddings", True):
        weights["lm_head.weight"] = decoder
    return weights


def _epsilon(config: Mapping[str, Any]) -> float:
    return float((config.get(OURS) or {}).get("layer_norm_eps", MARIANS_EPSILON))


def _options(config: Mapping[str, Any]) -> dict[str, Any]:
    """The model's options under our names."""
    is_shared, is_tied = (
        config.get(name, True)
        for name in ("share_encoder_decoder_embeddings", "tie_word_embeddings")
    )
    positions = config["max_position_embeddings"]
    return {
        "d_model": config["d_model"],
        "d_ff": config["encoder_ffn_dim"],
        "encoder_layers": config["encoder_layers"],
        "decoder_layers": config["decoder_layers"],
        "heads": config["encoder_attention_heads"],
        "dropout": float(config.get("dropout", 0.1)),
        "attention_dropout": float(config.get("attention_dropout", 0.0)),
        "activation_dropout": float(config.get("activation_dropout", 0.0)),
        "positions": "sinusoidal",
        "share_embeddings": "all" if is_shared and is_tied else "decoder" if is_tied else "none",
        "layer_norm_eps": _epsilon(config),
        "max_source_positions": positions,
        "max_target_positions": positions,
    }
