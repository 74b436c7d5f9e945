"""Bundles for Hugging Face's transformers: MarianMT for translation, GPT for a language model.

MarianMT is post-norm, with ReLU, embeddings times sqrt(d_model) and the sinusoids of section 3.5,
as ours. There are two differences:

* The paper interleaves sines and cosines, Marian has all sines first: a permutation of the model's
  D columns turns one into the other.
* Marian's layer normalization has epsilon 1e-5, ours 1e-6 as a rule. Normalizing c x with epsilon
  c^2 e gives the same as normalizing x with epsilon e. So the residual stream between the first and
  the last normalization of a stack is multiplied by c, a power of two, and the weights that read it
  are divided by c. This changes no bit of a mantissa.

OpenAI's first GPT is the paper's layer as a language model: post-norm, ReLU on request. It differs
in three ways, and the export computes the same nevertheless:

* GPT does not multiply its embeddings by sqrt(d_model). The exported matrix is multiplied instead,
  and the projection is a matrix of its own.
* GPT learns its table of positions. Here the table holds the sinusoids.
* GPT's hidden layer has 4 d_model units. A narrower one gets units that are always 0.

The tokenizer of raw word pieces is `MarianTokenizer` with the bundle's sentencepiece model;
`huggingface_tokenizer` writes the others.

Axes: D d_model, H heads, K d_k, F d_ff, P positions, V vocabulary.
"""

import math
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from vaswani_plugin.errors import UserError, optional
from vaswani_plugin.export import exported_model, huggingface_tokenizer
from vaswani_plugin.export.checkpoints import shared_owners
from vaswani_plugin.export.exported_model import SIDES, Weights
from vaswani_plugin.export.model_card import front_matter
from vaswani_plugin.files.outputs import write_json
from vaswani_plugin.inference.language_model import MAX_NEW_TOKENS
from vaswani_plugin.model.configuration import Configuration
from vaswani_plugin.modules.transformer import DecoderOnly, EncoderDecoder
from vaswani_plugin.search.options import PAPER_DECODING
from vaswani_plugin.text.dictionary import BOS, EOS, PAD, UNK
from vaswani_plugin.text.settings import (
    CARD,
    OURS,
    SAFETENSORS,
    Settings,
    TextSettings,
    read_settings,
    weights_path,
)

_PROJECTION, _HEAD = "decoder.output_projection.weight", "lm_head.weight"
_EMBEDDINGS = tuple(f"model.{side}.embed_tokens.weight" for side in SIDES)
_READS = ("q_proj", "k_proj", "v_proj", "fc1")
MARIANS_EPSILON = 1e-5
NEVER = -1e9  # a logit whose probability is 0 in float32
MOST_POSITIONS = 512  # longest output of `generate` in tokens, as in Marian's published models


def to_marian(weights: Weights, sizes: Configuration) -> Weights:
    """Our weights, of sinusoidal positions, by `MarianMTModel`'s names; shared memory stays so."""
    columns = torch.arange(sizes.d_model, device="cpu")
    sines_first = torch.cat((columns[0::2], columns[1::2]))
    counts = zip(SIDES, (sizes.encoder_layers, sizes.decoder_layers), strict=True)
    last_norms = tuple(f"model.{side}.layers.{n - 1}.final_layer_norm." for side, n in counts)
    done: dict[int, Tensor] = {}
    result = {}
    for fairseqs, tensor in exported_model.to_fairseq_weights(weights).items():
        name = _HEAD if fairseqs == _PROJECTION else f"model.{fairseqs}"
        if tensor.data_ptr() not in done:
            factor = stream_factor(sizes.layer_norm_eps) ** _exponent(name, last_norms)
            done[tensor.data_ptr()] = (tensor[_columns(name, sines_first)] * factor).contiguous()
        result[name] = done[tensor.data_ptr()]
    return result


def stream_factor(epsilon: float) -> float:
    """c: the power of two for which c^2 epsilon is nearest to Marian's epsilon."""
    return 2.0 ** round(math.log2(MARIANS_EPSILON / epsilon) / 2)


def _columns(name: str, order: Tensor) -> Any:
    """The index that orders the model's columns in a weight of Marian's."""
    part, suffix = name.split(".")[-2:]
    if suffix == "weight" and (part in _READS or part in ("embed_tokens", "lm_head")):
        return slice(None), order  # (H K, D), (F, D) or (V, D)
    return slice(None) if part in _READS else order  # (H K,) and (F,); (D, ...)


def _exponent(name: str, last_norms: tuple[str, ...]) -> int:
    """1 where a weight writes the multiplied stream, -1 where it reads it, 0 elsewhere."""
    part, suffix = name.split(".")[-2:]
    if name.startswith(last_norms) or part in ("embed_tokens", "lm_head"):
        return 0
    if ".layers.0.self_attn." in name:  # from the embeddings to the first normalization
        return 0
    if part in _READS:
        return 0 if suffix == "bias" or ("encoder_attn" in name and part != "q_proj") else -1
    return 1  # out_proj, fc2 and the norms


def _with_more_rows(weights: Weights, rows: int) -> Weights:
    """Add symbols that the model reads as <unk> and never writes, to `rows` in all."""
    matrix = weights[_HEAD]  # of all embeddings
    added = rows - len(matrix)
    longer = torch.cat((matrix, matrix[UNK].expand(added, -1)))  # (V + added, D)
    bias = torch.cat((matrix.new_zeros(len(matrix)), matrix.new_full((added,), NEVER)))
    matrices = dict.fromkeys((*_EMBEDDINGS, _HEAD), longer)
    return {**weights, **matrices, "final_logits_bias": bias[None]}


class _Folder(NamedTuple):
    """What a folder for transformers holds: weights, other files by name, and the card's parts."""

    model: EncoderDecoder | DecoderOnly
    weights: Weights
    files: dict[str, Any]
    title: str
    tag: str
    auto_class: str
    description: str
    without_tokenizer: str


_USE = """\
```python
from transformers import {0}, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".")
model = {0}.from_pretrained(".")
batch = tokenizer("A sentence.", return_tensors="pt")
tokenizer.decode(model.generate(**batch)[0], skip_special_tokens=True)
```"""


def export_to_huggingface(model: Path, output: Path, with_tokenizer: bool = True) -> Path:
    """Write a bundle of a translation or language model as a folder for transformers.

    Without a tokenizer it has the model and its vocabulary only. Returns the weights' path.
    """
    transformers = optional("transformers", "transformers")
    settings = read_settings(model)
    make = _openai_folder if isinstance(settings, TextSettings) else _marian_folder
    parts = make(model, with_tokenizer)
    use = _USE.format(parts.auto_class) if with_tokenizer else parts.without_tokenizer
    front = front_matter(settings, parts.tag, library_name="transformers")
    card = f"---\n{front}---\n\n# {parts.title}\n\n{parts.description}\n\n{use}\n"
    with exported_model.new_folder(output) as folder:
        save_file(parts.weights, folder / SAFETENSORS, metadata={"format": "pt"})
        for name, content in parts.files.items():
            if isinstance(content, bytes):
                (folder / name).write_bytes(content)
            else:
                write_json(folder / name, content)
        (folder / CARD).write_text(card, encoding="utf-8")

        def log_p(pairs: exported_model.Pairs) -> Tensor:
            with redirect_stderr(StringIO()):  # the progress bar
                theirs = getattr(transformers, parts.auto_class).from_pretrained(folder).eval()
            tokens, inputs = pairs.previous, {}
            if isinstance(parts.model, EncoderDecoder):
                tokens, inputs = pairs.source, {"decoder_input_ids": pairs.previous}
            inputs |= {"input_ids": tokens, "attention_mask": tokens.ne(PAD)}
            return pairs.log_p(theirs(**inputs).logits)

        exported_model.require_equal("Hugging Face", parts.model, log_p)
    return weights_path(model)


def _marian_folder(model: Path, with_tokenizer: bool) -> _Folder:
    settings, (trained, sizes, source, target, *_) = exported_model.read_model(model)
    is_larger = sizes.layer_norm_eps > MARIANS_EPSILON
    others = [f"--layer-norm-eps {sizes.layer_norm_eps:g}"] if is_larger else []
    remedy = "; --to onnx may have one"
    exported_model.refuse_departures("Hugging Face's Marian", sizes, others, remedy)
    weights = to_marian(trained.state_dict(), sizes)
    is_shared = sizes.share_embeddings == "all"
    files: dict[str, Any] = {"vocab.json": source.indices}
    if not is_shared:
        files["target_vocab.json"] = target.indices
    if with_tokenizer:
        config = huggingface_tokenizer.tokenizer_config(sizes.max_source_positions)
        config |= {"source_lang": settings.source_language, "target_lang": settings.target_language}
        rules = settings.tokenizer != "none" or settings.lowercase or settings.normalize_punctuation
        if settings.subwords == "sentencepiece" and not rules:  # raw pieces
            pieces = (model / str(settings.codes)).read_bytes()
            files |= {"source.spm": pieces, "target.spm": pieces}
            config |= {"tokenizer_class": "MarianTokenizer", "separate_vocabs": not is_shared}
        else:
            tokenizer = huggingface_tokenizer.bpe_tokenizer(model, settings, source, is_shared)
            weights = _with_more_rows(weights, len(tokenizer["model"]["vocab"]))
            files["tokenizer.json"] = tokenizer
        files["tokenizer_config.json"] = config
    files["config.json"] = marian_config(sizes, *(len(weights[name]) for name in _EMBEDDINGS))
    files["generation_config.json"] = generation_config(settings, sizes)
    pair = f"{settings.source_language}-{settings.target_language}"
    if len({weights[name].data_ptr() for name in _EMBEDDINGS}) == 1:
        weights = {"model.shared.weight": weights[_EMBEDDINGS[0]], **weights}
    return _Folder(
        trained,
        {name: weights[name] for name in dict.fromkeys(shared_owners(weights).values())},
        files,
        title=f"{pair}, a Transformer of vaswani_plugin",
        tag="translation",
        auto_class="AutoModelForSeq2SeqLM",
        description=f"{sizes.encoder_layers} + {sizes.decoder_layers} layers, d_model "
        f"{sizes.d_model}, d_ff {sizes.d_ff}, {sizes.heads} heads, exported as MarianMT. Between "
        f"its normalizations it carries {stream_factor(sizes.layer_norm_eps):g} times the numbers "
        "of the original, so that Marian's epsilon of 1e-5 has the effect of the original's.",
        without_tokenizer="The tokenizer is not part of it: text is prepared by "
        f"{settings.tokenizer} and {settings.subwords}. `vocab.json` numbers the subwords; a "
        "source ends with `</s>`.",
    )


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
        "bos_token_id": BOS,
        **_END_AND_PADDING,
        "decoder_start_token_id": EOS,
    }


_END_AND_PADDING = {"pad_token_id": PAD, "eos_token_id": EOS, "bad_words_ids": [[PAD]]}
"""For generation_config.json; padding is never written."""


def _openai_folder(model: Path, with_tokenizer: bool) -> _Folder:
    settings, (trained, sizes, _, dictionary, *_) = exported_model.read_model(model, TextSettings)
    if settings.article_tokens is not None:
        raise UserError(f"{model} holds a summarizer, and Hugging Face has no counterpart of it")
    is_wider = sizes.d_ff > 4 * sizes.d_model
    others = [f"--d-ff {sizes.d_ff} with --d-model {sizes.d_model}"] if is_wider else []
    theirs = exported_model.refuse_departures("Hugging Face's OpenAI GPT", sizes, others)
    files = {
        "config.json": openai_config(sizes, len(dictionary)) | theirs,
        "generation_config.json": {
            **_END_AND_PADDING,
            "bos_token_id": EOS,
            "max_new_tokens": min(MAX_NEW_TOKENS, sizes.max_target_positions // 2),
        },
        "vocab.json": dictionary.indices,
    }
    if with_tokenizer:
        files["tokenizer.json"] = huggingface_tokenizer.text_tokenizer(model, settings, dictionary)
        config = huggingface_tokenizer.tokenizer_config(sizes.max_target_positions)
        files["tokenizer_config.json"] = config | {"bos_token": dictionary[EOS]}
    return _Folder(
        trained,
        to_openai(trained, sizes),
        files,
        title="A language model of vaswani_plugin",
        tag="text-generation",
        auto_class="AutoModelForCausalLM",
        description=f"{sizes.decoder_layers} layers, d_model {sizes.d_model}, d_ff {sizes.d_ff}, "
        f"{sizes.heads} heads, exported as OpenAI GPT. A text begins with `</s>`.",
        without_tokenizer=f"`vocab.json` numbers the text's {settings.coding}.",
    )


def to_openai(model: DecoderOnly, sizes: Configuration) -> Weights:
    """The weights of a language model of ours for `OpenAIGPTLMHeadModel`."""
    ours = model.state_dict()
    matrix = ours["embedding.weight"]
    positions = torch.arange(sizes.max_target_positions, device=matrix.device)
    last = {f"transformer.ln_f.{name[5:]}": ours[name] for name in ours if name.startswith("norm.")}
    tokens, places = ("wte", "wpe") if last else ("tokens_embed", "positions_embed")  # GPT-2's
    weights = last | {
        f"transformer.{tokens}.weight": matrix * math.sqrt(sizes.d_model),
        f"transformer.{places}.weight": model.positions(positions[None])[0],
        "lm_head.weight": matrix,
    }
    unused = 4 * sizes.d_model - sizes.d_ff
    for number in range(sizes.decoder_layers):
        # Their weights multiply from the right, (inputs, outputs).
        for theirs, parts in _OPENAI_PARTS.items():
            for suffix in ("weight", "bias"):
                tensors = [ours[f"layers.{number}.{part}.{suffix}"].t() for part in parts]
                weights[f"transformer.h.{number}.{theirs}.{suffix}"] = torch.cat(tensors, -1)
        hidden = f"transformer.h.{number}.mlp"
        for name in (f"{hidden}.c_fc.weight", f"{hidden}.c_fc.bias"):  # (D, 4 D) and (4 D,)
            weights[name] = F.pad(weights[name], (0, unused))
        name = f"{hidden}.c_proj.weight"  # (4 D, D)
        weights[name] = F.pad(weights[name], (0, 0, 0, unused))
    return {name: weight.detach().contiguous() for name, weight in weights.items()}


_OPENAI_PARTS = {
    "attn.c_attn": [f"self_attention.{part}" for part in ("query", "key", "value")],
    "attn.c_proj": ["self_attention.output"],
    "ln_1": ["self_attention_norm.norm"],
    "mlp.c_fc": ["feed_forward.w_1"],
    "mlp.c_proj": ["feed_forward.w_2"],
    "ln_2": ["feed_forward_norm.norm"],
}
"""Parts of their layers, and ours that follow one another in it."""


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
        "activation_function": "relu",  # GPT-2's name of it
        "resid_pdrop": sizes.dropout,
        "embd_pdrop": sizes.dropout,
        "attn_pdrop": sizes.attention_dropout,
        "layer_norm_epsilon": sizes.layer_norm_eps,
        "tie_word_embeddings": False,
        "bos_token_id": EOS,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
    }
