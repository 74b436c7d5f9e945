"""Checkpoints of fairseq's stock Transformer, as its trainer writes them, with random weights."""

import argparse
from types import SimpleNamespace
from typing import Any

import torch
from fairseq.models.transformer import TransformerModel, base_architecture
from reference_weights import shake

SMALL = {
    "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 24,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "dropout": 0.0,
    "max_source_positions": 40,
    "max_target_positions": 30,
}


def stock_flags(**changes: Any) -> argparse.Namespace:
    """The options of a small stock Transformer; `changes` are fairseq's own names."""
    flags = argparse.Namespace(arch="transformer", _name="transformer", **{**SMALL, **changes})
    base_architecture(flags)
    return flags


def make_stock(task: SimpleNamespace, seed: int = 5, **changes: Any) -> TransformerModel:
    """A small stock Transformer in evaluation mode in which every weight counts."""
    torch.manual_seed(seed)
    model = TransformerModel.build_model(stock_flags(**changes), task)
    return shake(model).eval()


def as_checkpoint(model: TransformerModel, **changes: Any) -> dict[str, Any]:
    """What fairseq-train saves of a model that `make_stock` made with these changes."""
    task = {"_name": "translation", "source_lang": "en", "target_lang": "de"}
    return {
        "args": None,
        "cfg": {"model": stock_flags(**changes), "task": task},
        "model": model.state_dict(),
        "optimizer_history": [{"num_updates": 7}],
    }


def as_old_checkpoint(model: TransformerModel, **changes: Any) -> dict[str, Any]:
    """The same as a fairseq of 2018 saved it: joint projections, numbered norms, flat flags."""
    state = dict(model.state_dict())
    for side, norms in (
        ("encoder", ["self_attn_layer_norm", "final_layer_norm"]),
        ("decoder", ["self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"]),
    ):
        del state[f"{side}.version"]
        state[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
        layers = {name.split(".")[2] for name in state if name.startswith(f"{side}.layers.")}
        for layer in (f"{side}.layers.{number}" for number in layers):
            for number, norm in enumerate(norms):
                for part in ("weight", "bias"):
                    state[f"{layer}.layer_norms.{number}.{part}"] = state.pop(
                        f"{layer}.{norm}.{part}"
                    )
            attentions = ["self_attn"] if side == "encoder" else ["self_attn", "encoder_attn"]
            for attention in (f"{layer}.{name}" for name in attentions):
                for part in ("weight", "bias"):
                    names = [f"{attention}.{x}_proj.{part}" for x in "qkv"]
                    joint = torch.cat([state.pop(name) for name in names])
                    state[f"{attention}.in_proj_{part}"] = joint
    flags = vars(stock_flags(**changes))
    projection = state.pop("decoder.output_projection.weight")
    if not flags["share_decoder_input_output_embed"] and not flags["share_all_embeddings"]:
        state["decoder.embed_out"] = projection
    old = {
        name: flags[name]
        for name in (*SMALL, "arch", "share_all_embeddings", "share_decoder_input_output_embed")
        if name not in ("max_source_positions", "max_target_positions")
    }
    old |= {"max_positions": 40, "source_lang": "en", "target_lang": "de", "relu_dropout": 0.25}
    return {"args": argparse.Namespace(**old), "model": state, "optimizer_history": [{}]}
