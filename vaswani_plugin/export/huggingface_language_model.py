"""Exports a language model's bundle for Hugging Face's `AutoModelForCausalLM` (OpenAI's first GPT).

That architecture is the paper's layer as a language model: post-norm, ReLU on request, a table of
positions. It differs in three ways, and the export computes the same nevertheless:

* GPT does not multiply its embeddings by sqrt(d_model). The exported matrix is multiplied instead,
  and the projection is a matrix of its own.
* GPT learns its table of positions. Here the table holds the sinusoids.
* GPT's hidden layer has 4 d_model units. A narrower one gets units that are always 0.

Axes: D d_model, F d_ff, P positions, V vocabulary.
"""

import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.export.exported_model import (
    USE,
    Weights,
    departures,
    generation_defaults,
    new_folder,
    refuse,
    require_finite,
    require_known_modules,
    uneven_heads,
    write_card,
)
from vaswani_plugin.export.huggingface_tokenizer import FILE as TOKENIZER
from vaswani_plugin.export.huggingface_tokenizer import text_tokenizer, tokenizer_config
from vaswani_plugin.inference.bundle import Bundle
from vaswani_plugin.model.configuration import Configuration
from vaswani_plugin.modules.transformer import LanguageModel
from vaswani_plugin.search.options import MAX_NEW_TOKENS
from vaswani_plugin.text.dictionary import EOS, PAD
from vaswani_plugin.text.outputs import write_json
from vaswani_plugin.text.settings import SAFETENSORS, TextSettings, weights_path


def export_language_model(model: Path, output: Path, with_tokenizer: bool = True) -> Path:
    """As `export_to_huggingface`, of a language model."""
    bundle = Bundle.load(model, TextSettings)
    settings = bundle.pipeline.settings
    if settings.article_tokens is not None:
        raise UserError(
            f"{model} holds a summarizer, and Hugging Face has no counterpart of how it reads an "
            "article"
        )
    loaded = bundle.load_model()
    built, sizes, dictionary = loaded.model, loaded.sizes, loaded.target
    if not isinstance(sizes, Configuration):
        raise UserError(
            f"{model} holds a {type(built).__name__}, and Hugging Face has no counterpart of it"
        )
    require_known_modules(built)
    found = uneven_heads(sizes)
    if sizes.d_ff > 4 * sizes.d_model:
        found.append(f"--d-ff {sizes.d_ff} with --d-model {sizes.d_model}")
    refuse("Hugging Face's OpenAI GPT", found + departures(sizes))
    weights = to_openai(built, sizes)
    require_finite(weights)
    with new_folder(output) as folder:
        save_file(weights, folder / SAFETENSORS, metadata={"format": "pt"})
        write_json(folder / "config.json", openai_config(sizes, len(dictionary)))
        new_tokens = min(MAX_NEW_TOKENS, sizes.max_target_positions // 2)
        write_json(
            folder / "generation_config.json",
            {**generation_defaults(), "bos_token_id": EOS, "max_new_tokens": new_tokens},
        )
        write_json(folder / "vocab.json", dictionary.indices)
        if with_tokenizer:
            write_json(folder / TOKENIZER, text_tokenizer(model, settings, dictionary))
            config = {"bos_token": dictionary[EOS]}
            config |= tokenizer_config(sizes.max_target_positions)
            write_json(folder / "tokenizer_config.json", config)
        write_card(
            folder,
            "A language model of vaswani_plugin",
            "pipeline_tag: text-generation\nlibrary_name: transformers\n",
            f"{sizes.decoder_layers} layers, d_model {sizes.d_model}, d_ff {sizes.d_ff}, "
            f"{sizes.heads} heads, exported as OpenAI GPT. A text begins with `</s>`.",
            USE.format("AutoModelForCausalLM", "The beginning")
            if with_tokenizer
            else f"`vocab.json` numbers the text's {settings.coding}.",
        )
    return weights_path(model)


def to_openai(model: LanguageModel, sizes: Configuration) -> Weights:
    """The weights of a language model of ours for `OpenAIGPTLMHeadModel`."""
    ours = model.state_dict()
    matrix = ours["embedding.weight"]
    positions = torch.arange(sizes.max_target_positions, device=matrix.device)
    found = {
        "transformer.tokens_embed.weight": matrix * math.sqrt(sizes.d_model),
        "transformer.positions_embed.weight": model.positions(positions[None])[0],
        "lm_head.weight": matrix,
    }
    for number in range(sizes.decoder_layers):
        prefix = f"layers.{number}."
        layer = {k.removeprefix(prefix): w for k, w in ours.items() if k.startswith(prefix)}
        found |= {f"transformer.h.{number}.{k}": w for k, w in _layer(layer, sizes).items()}
    return {name: weight.detach().contiguous() for name, weight in found.items()}


def _layer(ours: Weights, sizes: Configuration) -> dict[str, Tensor]:
    """A layer's weights; theirs multiply from the right, (inputs, outputs)."""
    unused = 4 * sizes.d_model - sizes.d_ff
    projections = ("query", "key", "value")
    return {
        "attn.c_attn.weight": torch.cat(
            [ours[f"self_attention.{p}.weight"].T for p in projections], 1
        ),
        "attn.c_attn.bias": torch.cat([ours[f"self_attention.{p}.bias"] for p in projections]),
        "attn.c_proj.weight": ours["self_attention.output.weight"].T,
        "attn.c_proj.bias": ours["self_attention.output.bias"],
        "ln_1.weight": ours["self_attention_norm.norm.weight"],
        "ln_1.bias": ours["self_attention_norm.norm.bias"],
        "mlp.c_fc.weight": F.pad(ours["feed_forward.w_1.weight"].T, (0, unused)),  # (D, 4 D)
        "mlp.c_fc.bias": F.pad(ours["feed_forward.w_1.bias"], (0, unused)),
        "mlp.c_proj.weight": F.pad(
            ours["feed_forward.w_2.weight"].T, (0, 0, 0, unused)
        ),  # (4 D, D)
        "mlp.c_proj.bias": ours["feed_forward.w_2.bias"],
        "ln_2.weight": ours["feed_forward_norm.norm.weight"],
        "ln_2.bias": ours["feed_forward_norm.norm.bias"],
    }


def openai_config(sizes: Configuration, vocabulary: int) -> dict[str, Any]:
    """The content of config.json: `OpenAIGPTConfig`'s fields. A text begins with </s>."""
    return {
        "model_type": "openai-gpt",
        "architectures": ["OpenAIGPTLMHeadModel"],
        "vocab_size": vocabulary,
        "n_positions": sizes.max_target_positions,
        "n_embd": sizes.d_model,
        "n_layer": sizes.decoder_layers,
        "n_head": sizes.heads,
        "afn": "relu",
        "resid_pdrop": sizes.dropout,
        "embd_pdrop": sizes.dropout,
        "attn_pdrop": sizes.attention_dropout,
        "layer_norm_epsilon": sizes.layer_norm_eps,
        "tie_word_embeddings": False,
        "bos_token_id": EOS,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
    }
