"""Converts models of fairseq's stock `transformer` into ours, and ours into fairseq's.

An option that fairseq can't express is an error that names it.
"""

import argparse
from dataclasses import fields
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models.transformer import TransformerConfig, TransformerModel, base_architecture
from omegaconf import OmegaConf
from torch import Tensor, nn

from vaswani_plugin.export.exported_model import departures, model_options
from vaswani_plugin.export.fairseq_options import FAIRSEQ_LAYER_NORM_EPS
from vaswani_plugin.export.fairseq_weights import (
    Weights,
    from_fairseq_weights,
    to_fairseq_weights,
)
from vaswani_plugin.inference.checkpoints import Checkpoint
from vaswani_plugin.model.configuration import Configuration, head_sizes
from vaswani_plugin.modules.positions import sinusoids


def import_weights(
    state: Checkpoint, options: argparse.Namespace, source: Dictionary, target: Dictionary
) -> Weights:
    """A stock checkpoint's weights under our names, in the type of the file.

    fairseq itself renames the weights of its older versions: joint projections
    (`in_proj_weight`), numbered norms, `embed_out`.

    Args:
        state: the checkpoint.
        options: the result of `stock_options`.
        source: the source dictionary.
        target: the target dictionary.

    Raises:
        ValueError: the weights don't fit the options or the dictionaries.
    """
    weights = dict(state["model"])
    for side, dictionary in (("encoder", source), ("decoder", target)):
        embedding = weights.get(f"{side}.embed_tokens.weight")
        if embedding is not None and len(embedding) != len(dictionary):
            raise ValueError(
                f"its {side} embeds {len(embedding)} words and the dictionary of --data-bin has "
                f"{len(dictionary)}; give the folder with the dict.*.txt it was trained with"
            )
    built_from = argparse.Namespace(
        **{**vars(options), "encoder_embed_path": None, "decoder_embed_path": None}
    )
    task = argparse.Namespace(source_dictionary=source, target_dictionary=target)
    with torch.device("meta"):  # names and shapes only
        stock = TransformerModel.build_model(built_from, task)
    stock.upgrade_state_dict(weights)
    try:
        nn.Module.load_state_dict(stock, weights, assign=True)
    except RuntimeError as error:
        complaint = str(error).split("\n\t")[1]  # the first of PyTorch's list
        raise ValueError(f"its weights don't fit its own options: {complaint}") from error
    buffers = {name for name, _ in stock.named_buffers()}
    kept = {name: t.detach() for name, t in stock.state_dict().items() if name not in buffers}
    return from_fairseq_weights(kept)


def recognize_sinusoids(weights: Weights, config: dict[str, Any]) -> None:
    """Turn a learned table that equals the paper's sinusoids into `--positions sinusoidal`.

    This is the inverse of `stock_model`; the table must be equal bit for bit. Changes both
    arguments.

    Args:
        weights: the result of `import_weights`.
        config: the result of `our_config`.
    """
    names = ["encoder.positions.weight", "decoder.positions.weight"]
    tables = [weights[name] for name in names if name in weights]
    if tables and all(torch.equal(table, _paper_table(table)) for table in tables):
        config["positions"] = "sinusoidal"
        for name in names:
            del weights[name]


def _paper_table(like: Tensor) -> Tensor:
    rows, width = like.shape
    if width % 2:
        return torch.full_like(like, torch.nan)
    return sinusoids(torch.arange(rows, device=like.device), width).to(like.dtype)


def our_model(state: Checkpoint) -> Configuration:
    """The configuration of a checkpoint of ours.

    Raises:
        ValueError: the checkpoint holds another model.
    """
    options = model_options(state)
    known = {field.name for field in fields(Configuration)} - {"_name"}
    return Configuration(**{k: v for k, v in options.items() if k in known})


def stock_model(
    weights: Weights, cfg: Configuration, allow_layer_norm_eps: bool = False
) -> tuple[Weights, dict[str, Any]]:
    """Our model as fairseq's stock `transformer`.

    fairseq can't compute the paper's sinusoids, so they become a table of learned positions. The
    model then computes the same, but only for as many positions as the table has.

    Args:
        weights: a state dictionary of `vaswani_transformer`.
        cfg: its configuration.
        allow_layer_norm_eps: accept that fairseq's LayerNorm always has epsilon 1e-5.

    Returns:
        The weights under fairseq's names, and the options as `stock_options` returns them.

    Raises:
        ValueError: fairseq can't express the model; names each option that prevents it.
    """
    _refuse_what_fairseq_lacks(cfg, allow_layer_norm_eps)
    weights = dict(weights)
    if cfg.positions == "sinusoidal":
        like = weights["encoder.embedding.weight"]
        for side, rows in (
            ("encoder", cfg.max_source_positions),
            ("decoder", cfg.max_target_positions),
        ):
            table = _paper_table(like.new_empty(rows, cfg.d_model))
            weights[f"{side}.positions.weight"] = table
    named = to_fairseq_weights(weights)
    for side in ("encoder", "decoder"):
        named[f"{side}.version"] = torch.tensor([3.0], device="cpu")
    learned = cfg.positions != "sinusoidal-fairseq"
    options = argparse.Namespace(
        encoder_embed_dim=cfg.d_model,
        encoder_ffn_embed_dim=cfg.d_ff,
        encoder_layers=cfg.encoder_layers,
        decoder_layers=cfg.decoder_layers,
        encoder_attention_heads=cfg.heads,
        decoder_attention_heads=cfg.heads,
        encoder_learned_pos=learned,
        decoder_learned_pos=learned,
        dropout=cfg.dropout,
        attention_dropout=cfg.attention_dropout,
        activation_dropout=cfg.activation_dropout,
        share_all_embeddings=cfg.share_embeddings == "all",
        share_decoder_input_output_embed=cfg.share_embeddings != "none",
        max_source_positions=cfg.max_source_positions,
        max_target_positions=cfg.max_target_positions,
        min_params_to_wrap=TransformerConfig.min_params_to_wrap,
    )
    base_architecture(options)
    return named, vars(options)


def _refuse_what_fairseq_lacks(cfg: Configuration, allow_layer_norm_eps: bool) -> None:
    obstacles = []
    d_k, d_v = head_sizes(cfg)
    for flag, width in (("--d-k", d_k), ("--d-v", d_v)):
        if width * cfg.heads != cfg.d_model:
            obstacles.append(
                f"{flag} {width} (there --heads {cfg.heads} times it must be "
                f"--d-model {cfg.d_model})"
            )
    obstacles += departures(cfg)
    if cfg.layer_norm_eps != FAIRSEQ_LAYER_NORM_EPS and not allow_layer_norm_eps:
        obstacles.append(
            f"--layer-norm-eps {cfg.layer_norm_eps:g} (there always {FAIRSEQ_LAYER_NORM_EPS:g}; "
            "--allow-layer-norm-eps accepts slightly different outputs)"
        )
    if obstacles:
        raise ValueError(f"fairseq's transformer has no counterpart of {', '.join(obstacles)}")


def checkpoint_of(
    weights: Weights,
    model: dict[str, Any],
    task: dict[str, Any],
    updates: int = 0,
    task_state: dict[str, Any] | None = None,
) -> Checkpoint:
    """A checkpoint that fairseq loads, without an optimizer's state.

    Every section is plain data, so that it loads without any allowed class.

    Args:
        weights: the model's state dictionary.
        model: its options with `_name`.
        task: the task's options with `_name`.
        updates: number of updates that the model was trained for.
        task_state: the task's part of the checkpoint.
    """
    sections = OmegaConf.to_container(OmegaConf.structured(FairseqConfig()), enum_to_str=True)
    history = {
        "criterion_name": None,
        "optimizer_name": None,
        "lr_scheduler_state": {},
        "num_updates": updates,
    }
    iterator = {"version": 2, "epoch": 1, "iterations_in_epoch": 0, "shuffle": True}
    return {
        "args": None,
        "cfg": {**sections, "model": model, "task": task},
        "model": weights,
        "criterion": None,
        "optimizer_history": [history],
        "last_optimizer_state": None,
        "task_state": task_state or {},
        "extra_state": {"train_iterator": iterator},
    }
