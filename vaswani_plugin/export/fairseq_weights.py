"""Renames the weights of our Transformer to those of fairseq's stock `transformer`, and back.

Both models are post-norm with biases in every projection, so each weight of one is a weight of the
other, bit for bit. Only learned positions differ in layout: fairseq's table begins with one unread
row for each number up to that of padding.
"""

import re

import torch
from torch import Tensor

from vaswani_plugin.model.build import FAIRSEQ_FIRST_POSITION

Weights = dict[str, Tensor]

_EMBEDDINGS = {
    "encoder.embedding.weight": "encoder.embed_tokens.weight",
    "decoder.embedding.weight": "decoder.embed_tokens.weight",
    "decoder.projection.weight": "decoder.output_projection.weight",
}
_POSITIONS = {
    f"{side}.positions.weight": f"{side}.embed_positions.weight" for side in ("encoder", "decoder")
}
_ATTENTIONS = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
PARTS = {
    "self_attention_norm.norm": "self_attn_layer_norm",
    "cross_attention_norm.norm": "encoder_attn_layer_norm",
    "feed_forward_norm.norm": "final_layer_norm",
    "feed_forward.w_1": "fc1",
    "feed_forward.w_2": "fc2",
    **{
        f"{attention}.{projection}": f"{their_attention}.{their_projection}"
        for attention, their_attention in _ATTENTIONS.items()
        for projection, their_projection in _PROJECTIONS.items()
    },
}
"""Parts of a layer: our names, and those of fairseq, which Hugging Face took over."""
OUR_PARTS = {theirs: ours for ours, theirs in PARTS.items()}
_LAYER_WEIGHT = re.compile(r"((?:encoder|decoder)\.layers\.\d+)\.(.+)\.(weight|bias)")


def to_fairseq_weights(weights: Weights) -> Weights:
    """Our model's weights under fairseq's names.

    Args:
        weights: a state dictionary of `vaswani_transformer`.

    Returns:
        The same tensors; learned positions (P, D) with their unread first rows, (2 + P, D).

    Raises:
        ValueError: fairseq has no place for one of them.
    """
    named = {}
    for name, tensor in weights.items():
        if name in _POSITIONS:
            unread = tensor.new_zeros(FAIRSEQ_FIRST_POSITION, tensor.size(1))
            named[_POSITIONS[name]] = torch.cat((unread, tensor))
        else:
            named[renamed(name, _EMBEDDINGS, PARTS)] = tensor
    return named


def from_fairseq_weights(weights: Weights) -> Weights:
    """The inverse of `to_fairseq_weights`, with the same arguments, result and errors."""
    our_positions = {theirs: ours for ours, theirs in _POSITIONS.items()}
    our_embeddings = {theirs: ours for ours, theirs in _EMBEDDINGS.items()}
    named = {}
    for name, tensor in weights.items():
        if name in our_positions:
            named[our_positions[name]] = tensor[FAIRSEQ_FIRST_POSITION:].clone()
        else:
            named[renamed(name, our_embeddings, OUR_PARTS)] = tensor
    return named


def renamed(name: str, whole: dict[str, str], parts: dict[str, str]) -> str:
    """Rename a weight.

    Args:
        name: of the weight.
        whole: other names of weights outside the layers.
        parts: `PARTS` or `OUR_PARTS`.

    Raises:
        ValueError: the other model has no such weight.
    """
    match = _LAYER_WEIGHT.fullmatch(name)
    if match and match[2] in parts:
        return f"{match[1]}.{parts[match[2]]}.{match[3]}"
    if name in whole:
        return whole[name]
    raise ValueError(f"the weight {name} has no counterpart in the other Transformer")
