"""The options of fairseq's stock `transformer`, read from a checkpoint and translated into ours.

An option that our model can't express is an error that names it; nothing is approximated.
"""

import argparse
from dataclasses import fields, is_dataclass
from typing import Any

from fairseq.models import ARCH_MODEL_NAME_REGISTRY
from fairseq.models.transformer import TransformerConfig, base_architecture

from vaswani_plugin.inference.checkpoints import Checkpoint

MODEL = "vaswani_transformer"
FAIRSEQ_LAYER_NORM_EPS = 1e-5

# Options that both fairseq's model and ours have (possibly under another name).
_SHARED = {
    *("dropout", "attention_dropout", "activation_dropout", "relu_dropout"),
    *("share_all_embeddings", "share_decoder_input_output_embed"),
    *("max_source_positions", "max_target_positions"),
    *(
        f"{side}_{name}"
        for side in ("encoder", "decoder")
        for name in ("embed_dim", "ffn_embed_dim", "layers", "attention_heads", "learned_pos")
    ),
    *("decoder_input_dim", "decoder_output_dim"),
}
# Options that don't change what a trained post-norm model computes.
_WITHOUT_EFFECT = {
    *("encoder_embed_path", "decoder_embed_path", "no_decoder_final_norm", "export"),
    *("adaptive_softmax_dropout", "adaptive_softmax_factor", "quant_noise_pq_block_size"),
    *("tie_adaptive_weights", "tie_adaptive_proj"),  # only for an adaptive softmax
    *("checkpoint_activations", "offload_activations", "min_params_to_wrap"),
    *("base_sublayers", "base_shuffle"),
}
_REASONS = {
    "encoder_normalize_before": "pre-norm, where the paper normalizes after each sub-layer",
    "decoder_normalize_before": "pre-norm, where the paper normalizes after each sub-layer",
}
# Options that fairseq's layers read, although its configuration doesn't list them.
_UNLISTED = ("scale_attn", "scale_fc", "scale_heads", "scale_resids")


def stock_options(state: Checkpoint) -> argparse.Namespace:
    """The options of a stock `transformer`, with defaults for those that an old checkpoint lacks.

    Raises:
        ValueError: the checkpoint holds another model.
    """
    sections = state.get("cfg") or {}
    found = sections.get("model") or state.get("args")
    options = dict(vars(found) if isinstance(found, argparse.Namespace) else found or {})
    arch = options.get("_name") or options.get("arch") or "a model without a name"
    if ARCH_MODEL_NAME_REGISTRY.get(arch) != "transformer":
        ours = ARCH_MODEL_NAME_REGISTRY.get(arch) == MODEL or arch == MODEL
        already = ", which is ours already" if ours else ""
        raise ValueError(f"it holds {arch}{already}; import takes fairseq's own 'transformer'")
    args = argparse.Namespace(**options)
    for side in ("source", "target"):  # checkpoints of 2018 have one limit for both
        if getattr(args, f"max_{side}_positions", None) is None:
            limit = getattr(args, "max_positions", None) or 1024
            setattr(args, f"max_{side}_positions", limit)
    base_architecture(args)
    return args


def stock_task(state: Checkpoint) -> dict[str, Any]:
    """The options of a checkpoint's translation task that the model needs: languages and padding.

    Raises:
        ValueError: the model was trained for another task.
    """
    sections = state.get("cfg") or {}
    found = sections.get("task") or state.get("args") or {}
    options = dict(vars(found) if isinstance(found, argparse.Namespace) else found)
    task = options.get("_name") or options.get("task") or "translation"
    if task not in ("translation", "vaswani_translation"):
        raise ValueError(f"it was trained for --task {task}; import takes --task translation")
    kept = ("source_lang", "target_lang", "left_pad_source", "left_pad_target")
    return {name: options[name] for name in kept if options.get(name) is not None}


def our_config(options: argparse.Namespace) -> dict[str, Any]:
    """The configuration of `vaswani_transformer` for a stock `transformer`'s options.

    Args:
        options: the result of `stock_options`.

    Raises:
        ValueError: our model can't express it; names each option that prevents it.
    """
    cfg = TransformerConfig.from_namespace(options)
    obstacles = [*_unexpressed(cfg), *(_flag(n) for n in _UNLISTED if getattr(options, n, False))]
    for name in ("embed_dim", "ffn_embed_dim", "attention_heads", "learned_pos"):
        theirs = [getattr(side, name) for side in (cfg.encoder, cfg.decoder)]
        if theirs[0] != theirs[1]:
            encoder, decoder = _flag(f"encoder_{name}"), _flag(f"decoder_{name}")
            obstacles.append(f"{encoder} {theirs[0]} with {decoder} {theirs[1]}")
    for name in ("input_dim", "output_dim"):
        width = int(getattr(cfg.decoder, name))
        if width != cfg.decoder.embed_dim:
            obstacles.append(f"{_flag('decoder_' + name)} {width}")
    if obstacles:
        raise ValueError(
            f"{MODEL} has no counterpart of {', '.join(obstacles)}; decode this model with "
            "fairseq itself, or train one without"
        )
    shared = "decoder" if cfg.share_decoder_input_output_embed else "none"
    return {
        "d_model": cfg.encoder.embed_dim,
        "d_ff": cfg.encoder.ffn_embed_dim,
        "encoder_layers": cfg.encoder.layers,
        "decoder_layers": cfg.decoder.layers,
        "heads": cfg.encoder.attention_heads,
        "d_k": None,
        "d_v": None,
        "dropout": cfg.dropout,
        "attention_dropout": cfg.attention_dropout,
        "activation_dropout": cfg.activation_dropout or cfg.relu_dropout,
        "positions": "learned" if cfg.encoder.learned_pos else "sinusoidal-fairseq",
        "share_embeddings": "all" if cfg.share_all_embeddings else shared,
        "attention_window": 0,
        "attention_scale": "sqrt",
        "next_word": False,
        "layer_norm_eps": FAIRSEQ_LAYER_NORM_EPS,
        "max_source_positions": cfg.max_source_positions,
        "max_target_positions": cfg.max_target_positions,
    }


def _unexpressed(cfg: TransformerConfig) -> list[str]:
    """The options that this model uses and ours lacks, as flags with values and reasons."""
    used = []
    for name, value, default in _flat(cfg, TransformerConfig()):
        known = name in _SHARED or name in _WITHOUT_EFFECT
        if known or value == default or (not value and not default):
            continue
        reason = f" ({_REASONS[name]})" if name in _REASONS else ""
        used.append(f"{_flag(name)} {value}{reason}")
    return used


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _flat(cfg: Any, defaults: Any, prefix: str = "") -> list[tuple[str, Any, Any]]:
    """Name, value and default of every option; nested options have the names of fairseq's flags."""
    rows = []
    for field in fields(defaults):
        value, default = getattr(cfg, field.name), getattr(defaults, field.name)
        if is_dataclass(default):
            rows += _flat(value, default, f"{prefix}{field.name}_")
        elif field.name != "_name":
            rows.append((prefix + field.name, value, default))
    return rows
