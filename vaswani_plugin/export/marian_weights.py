"""Weights of our Transformer under the names and in the order of Hugging Face's Marian.

Both models are post-norm, with ReLU, embeddings times sqrt(d_model) and the sinusoids of section
3.5. There are two differences:

* The paper interleaves sines and cosines, Marian has all sines first: a permutation of the model's
  D columns turns one into the other.
* Marian's layer normalization has epsilon 1e-5, ours 1e-6 as a rule. Normalizing c x with epsilon
  c^2 e gives the same as normalizing x with epsilon e. So the residual stream between the first and
  the last normalization of a stack is multiplied by c, a power of two, and the weights that read it
  are divided by c. This changes no bit of a mantissa, and the inverse gives the same weights.

Axes: D d_model, H heads, K d_k, V vocabulary.
"""

import math

import torch
from torch import Tensor

from vaswani_plugin.export.fairseq_weights import OUR_PARTS, PARTS, Weights, renamed

_EMBEDDINGS = {
    "encoder.embedding.weight": "model.encoder.embed_tokens.weight",
    "decoder.embedding.weight": "model.decoder.embed_tokens.weight",
    "decoder.projection.weight": "lm_head.weight",
}
_OUR_EMBEDDINGS = {theirs.removeprefix("model."): ours for ours, theirs in _EMBEDDINGS.items()}
_COMPUTED = {
    "model.encoder.embed_positions.weight",
    "model.decoder.embed_positions.weight",
    "final_logits_bias",
}
MARIANS_EPSILON = 1e-5
NEVER = -1e9
"""A logit whose probability is 0 in float32."""


def to_marian(weights: Weights, epsilon: float) -> Weights:
    """Our weights for `MarianMTModel`.

    Args:
        weights: a state dictionary of `vaswani_transformer` with sinusoidal positions.
        epsilon: of its layer normalization.

    Returns:
        The same model under Marian's names. Weights that share memory still do.

    Raises:
        ValueError: Marian has no place for one of them.
    """
    order = sines_first(weights["decoder.embedding.weight"].size(1))
    factor = stream_factor(epsilon)
    named = {_marian_name(name): tensor for name, tensor in weights.items()}
    return _converted(named, order, factor)


def from_marian(weights: Weights, epsilon: float = MARIANS_EPSILON) -> Weights:
    """The inverse of `to_marian`, with the same errors; drops the tables that Marian computes.

    Args:
        weights: a state dictionary of `MarianMTModel`.
        epsilon: of our layer normalization.

    Returns:
        The same model under our names.
    """
    width = weights["model.decoder.layers.0.fc1.weight"].size(1)
    kept = {name: tensor for name, tensor in weights.items() if name not in _COMPUTED}
    back = _converted(kept, sines_first(width).argsort(), 1 / stream_factor(epsilon))
    return {_our_name(name): tensor for name, tensor in back.items()}


def with_more_rows(weights: Weights, rows: int, unknown: int) -> Weights:
    """Add symbols that the model reads as <unk> and never writes.

    Args:
        weights: of `MarianMTModel`, with one matrix for all embeddings.
        rows: of the longer matrix.
        unknown: row of <unk>.

    Returns:
        The weights with the longer matrix, and a bias that rules the new symbols out.
    """
    matrix = weights["lm_head.weight"]
    more = rows - len(matrix)
    longer = torch.cat((matrix, matrix[unknown].expand(more, -1)))  # (V + more, D)
    bias = torch.cat((matrix.new_zeros(len(matrix)), matrix.new_full((more,), NEVER)))
    changed = dict.fromkeys(_EMBEDDINGS.values(), longer)
    return {**weights, **changed, "final_logits_bias": bias[None]}


def sines_first(d_model: int) -> Tensor:
    """The columns of the paper's sinusoids in Marian's order: 0, 2, 4, ..., 1, 3, 5, ..."""
    columns = torch.arange(d_model, device="cpu")
    return torch.cat((columns[0::2], columns[1::2]))


def stream_factor(epsilon: float) -> float:
    """c: the power of two for which c^2 epsilon is nearest to Marian's epsilon."""
    return 2.0 ** round(math.log2(MARIANS_EPSILON / epsilon) / 2)


def _converted(weights: Weights, order: Tensor, factor: float) -> Weights:
    last = {side: _last_norm(weights, side) for side in ("encoder", "decoder")}
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


def _marian_name(name: str) -> str:
    if name in _EMBEDDINGS:
        return _EMBEDDINGS[name]
    return f"model.{renamed(name, {}, PARTS)}"


def _our_name(name: str) -> str:
    return renamed(name.removeprefix("model."), _OUR_EMBEDDINGS, OUR_PARTS)
