"""Exports a bundle to a folder that Hugging Face's transformers loads with its own code (MarianMT).

`marian_weights` converts the weights. The tokenizer of raw word pieces is `MarianTokenizer` with
the bundle's sentencepiece model. `huggingface_tokenizer` writes one for Moses' rules with
subword-nmt's BPE.
"""

import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from vaswani_plugin.decoding import PAPER_DECODING
from vaswani_plugin.errors import UserError
from vaswani_plugin.export.exported_model import (
    departures,
    model_options,
    require_finite,
    translation_settings,
    uneven_heads,
)
from vaswani_plugin.export.huggingface_files import generation_defaults
from vaswani_plugin.export.huggingface_tokenizer import FILE as TOKENIZER
from vaswani_plugin.export.huggingface_tokenizer import (
    bpe_tokenizer,
    require_one_dictionary,
    tokenizer_config,
)
from vaswani_plugin.export.marian_weights import (
    MARIANS_EPSILON,
    Weights,
    stream_factor,
    to_marian,
    with_more_rows,
)
from vaswani_plugin.export.new_folder import new_folder
from vaswani_plugin.inference.checkpoint_models import read_parts
from vaswani_plugin.inference.checkpoints import load_checkpoint
from vaswani_plugin.inference.model_card import front_matter
from vaswani_plugin.inference.safetensors_file import shared_owners
from vaswani_plugin.inference.untrusted import untrusted
from vaswani_plugin.model.configuration import Configuration
from vaswani_plugin.text.dictionary import BOS, EOS, PAD, UNK, Dictionary
from vaswani_plugin.text.output_files import write_json
from vaswani_plugin.text.settings import OURS, SAFETENSORS, Settings, weights_path

SIDES = ("encoder", "decoder")
MOST_POSITIONS = 512
"""Longest output of `generate` in tokens, as in Marian's published models."""


def export_translation_model(model: Path, output: Path, with_tokenizer: bool = True) -> Path:
    """Write a translation model's bundle for `AutoModelForSeq2SeqLM` and `AutoTokenizer`.

    Args:
        model: the bundle.
        output: the folder to make.
        with_tokenizer: False writes the model and its vocabulary only.

    Returns:
        The file that the weights were read from.

    Raises:
        ValueError: `model` is not a bundle, Marian can't express the model, no tokenizer of Hugging
            Face splits text in the same way, or `output` is not empty.
        OSError: a file can't be read or written.
    """
    settings = translation_settings(model)
    path = weights_path(model)
    state = load_checkpoint(path)
    with untrusted(path):
        model_options(state)  # refuses other models
        require_finite(state["model"])
        languages = settings.source_language, settings.target_language
        sizes, source, target = read_parts(state, model, languages)
        _refuse_other_models(sizes)
        weights = to_marian(state["model"], sizes.layer_norm_eps)
    tokenizer = None
    if with_tokenizer and not _has_raw_pieces(settings):
        require_one_dictionary(sizes.share_embeddings)
        tokenizer = bpe_tokenizer(model, settings, source)
        weights = with_more_rows(weights, len(tokenizer["model"]["vocab"]), UNK)
    with new_folder(output) as folder:
        _write_weights(weights, folder)
        words = (len(weights[f"model.{side}.embed_tokens.weight"]) for side in SIDES)
        write_json(folder / "config.json", marian_config(sizes, *words))
        write_json(folder / "generation_config.json", generation_config(settings, sizes))
        write_json(folder / "vocab.json", numbered(source))
        if sizes.share_embeddings != "all":
            write_json(folder / "target_vocab.json", numbered(target))
        if with_tokenizer:
            _write_tokenizer(model, settings, sizes, tokenizer, folder)
        (folder / "README.md").write_text(_card(settings, sizes, with_tokenizer), encoding="utf-8")
    return path


def _has_raw_pieces(settings: Settings) -> bool:
    """Whether the text is cut into sentencepiece's pieces and nothing else."""
    rules = settings.tokenizer != "none" or settings.lowercase or settings.normalize_punctuation
    return settings.subwords == "sentencepiece" and not rules


def _refuse_other_models(sizes: Configuration) -> None:
    """Refuse a model that Marian can't express; name the option and an export that supports it."""
    found = uneven_heads(sizes)
    if sizes.positions != "sinusoidal":
        found.append(f"--positions {sizes.positions}")
    found += departures(sizes)
    if sizes.layer_norm_eps > MARIANS_EPSILON:
        found.append(f"--layer-norm-eps {sizes.layer_norm_eps:g}")
    if found:
        other = "fairseq" if "--positions" in found[0] else "ctranslate2"
        also = "" if departures(sizes) else f"; --to {other} can"
        raise UserError(f"Hugging Face's Marian has no counterpart of {found[0]}{also}")


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
    """The content of config.json: `MarianConfig`'s fields, and our own under "vaswani".

    Args:
        sizes: of the model.
        source_words: rows of the source embedding.
        target_words: rows of the target embedding.
    """
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "vocab_size": source_words,
        "decoder_vocab_size": target_words,
        "share_encoder_decoder_embeddings": sizes.share_embeddings == "all",
        "tie_word_embeddings": sizes.share_embeddings != "none",
        "d_model": sizes.d_model,
        **{
            f"{side}_{name}": value
            for side, layers in (
                ("encoder", sizes.encoder_layers),
                ("decoder", sizes.decoder_layers),
            )
            for name, value in (
                ("layers", layers),
                ("ffn_dim", sizes.d_ff),
                ("attention_heads", sizes.heads),
            )
        },
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
    """The content of vocab.json: the number of each symbol.

    Raises:
        UserError: a symbol occurs twice.
    """
    numbers = {symbol: number for number, symbol in enumerate(dictionary.symbols)}
    if len(numbers) != len(dictionary):
        raise UserError("a dictionary holds a symbol twice, and a tokenizer takes it once")
    return numbers


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


def _card(settings: Settings, sizes: Configuration, with_tokenizer: bool) -> str:
    """The model card."""
    lines = [
        f"---\n{front_matter(settings, 'translation', library_name='transformers')}---",
        "",
        f"# {settings.source_language}-{settings.target_language}, a Transformer of vaswani_plugin",
        "",
        f"{sizes.encoder_layers} + {sizes.decoder_layers} layers, d_model {sizes.d_model}, d_ff "
        f"{sizes.d_ff}, {sizes.heads} heads, exported as MarianMT.",
        "",
    ]
    if with_tokenizer:
        lines += [
            "```python",
            "from transformers import AutoModelForSeq2SeqLM, AutoTokenizer",
            "",
            'folder = "."',
            "tokenizer = AutoTokenizer.from_pretrained(folder)",
            "model = AutoModelForSeq2SeqLM.from_pretrained(folder)",
            'batch = tokenizer(["A sentence."], return_tensors="pt")',
            "tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)",
            "```",
        ]
    else:
        lines.append(
            f"The tokenizer is not part of it: text is prepared by {settings.tokenizer} and "
            f"{settings.subwords}. `vocab.json` numbers the subwords; a source ends with `</s>`."
        )
    lines += [
        "",
        "Between its normalizations the model carries numbers that are "
        f"{stream_factor(sizes.layer_norm_eps):g} times those of the original, so that Marian's "
        "epsilon of 1e-5 has the effect of the original's.",
        "",
    ]
    return "\n".join(lines)
