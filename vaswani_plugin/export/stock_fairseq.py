"""fairseq's stock `transformer` as a model of ours, and ours as fairseq's.

An option that the other side can't express is an error that names it; nothing is approximated.
"""

import argparse
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import ARCH_MODEL_NAME_REGISTRY
from fairseq.models.transformer import TransformerConfig, TransformerModel, base_architecture
from omegaconf import OmegaConf
from torch import Tensor, nn

from vaswani_plugin.errors import UserError
from vaswani_plugin.export import exported_model
from vaswani_plugin.export.checkpoints import options_of, save_checkpoint
from vaswani_plugin.export.exported_model import SIDES, Weights
from vaswani_plugin.files.outputs import check_outputs
from vaswani_plugin.inference import checkpoints
from vaswani_plugin.inference.checkpoints import TASKS, Checkpoint, load_checkpoint, naming
from vaswani_plugin.model.build import Rows, WithoutInitialWeights, build_sizes
from vaswani_plugin.model.configuration import Configuration, flag
from vaswani_plugin.model.families import TRANSFORMER, TRANSLATION, TRANSLATOR, family_of
from vaswani_plugin.modules.embedding import sinusoids
from vaswani_plugin.text.dictionary import PAD, Dictionary, dictionary_name
from vaswani_plugin.text.languages import trained_languages
from vaswani_plugin.text.settings import Settings, weights_path

FAIRSEQ, FAIRSEQ_LAYER_NORM_EPS = "fairseq's transformer", 1e-5

_WITHOUT_EFFECT = (
    "encoder_embed_path decoder_embed_path no_decoder_final_norm export adaptive_softmax_dropout "
    "adaptive_softmax_factor quant_noise_pq_block_size checkpoint_activations offload_activations "
    "min_params_to_wrap base_sublayers base_shuffle "
    "tie_adaptive_weights tie_adaptive_proj "  # only for an adaptive softmax
    "activation_dropout relu_dropout "  # two names of one option
    "share_all_embeddings share_decoder_input_output_embed"  # the first implies the second
).split()
"""Options that need not come back equal from the way there and back."""
_UNLISTED = ("scale_attn", "scale_fc", "scale_heads", "scale_resids")
"""Options that fairseq's layers read, although its configuration doesn't list them."""
_SAME = (  # options with one name
    "encoder_layers decoder_layers dropout attention_dropout activation_dropout "
    "max_source_positions max_target_positions"
).split()


def stock_options(state: Checkpoint) -> argparse.Namespace:
    """The options of a stock `transformer`, with defaults for what an old checkpoint lacks."""
    options = options_of(state, "model")
    arch = options.get("_name") or options.get("arch") or "a model without a name"
    if ARCH_MODEL_NAME_REGISTRY.get(arch) != "transformer":
        raise UserError(f"it holds {arch}; import takes fairseq's own 'transformer'")
    args = argparse.Namespace(**options)
    for side in ("source", "target"):  # checkpoints of 2018 have one limit for both
        if getattr(args, f"max_{side}_positions", None) is None:
            setattr(args, f"max_{side}_positions", getattr(args, "max_positions", None) or 1024)
    base_architecture(args)
    return args


def stock_task(state: Checkpoint) -> dict[str, Any]:
    """The options of a translation task that the model needs: languages and padding."""
    options = options_of(state, "task")
    task = options.get("_name") or options.get("task") or "translation"
    if task not in TASKS[Settings]:
        raise UserError(f"it was trained for --task {task}; import takes --task translation")
    kept = ("source_lang", "target_lang", "left_pad_source", "left_pad_target")
    return {name: options[name] for name in kept if options.get(name) is not None}


def our_config(options: argparse.Namespace) -> dict[str, Any]:
    """Our configuration for the result of `stock_options`; refuses what it lacks, by name."""
    cfg = TransformerConfig.from_namespace(options)
    shared = "decoder" if cfg.share_decoder_input_output_embed else "none"
    config = {
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
        "layer_norm_eps": FAIRSEQ_LAYER_NORM_EPS,
        "max_source_positions": cfg.max_source_positions,
        "max_target_positions": cfg.max_target_positions,
    }
    flags = _flat(cfg)
    for name, values in exported_model.EXPRESSED[FAIRSEQ].items():
        for ours, theirs in values.items():
            if theirs.items() <= flags.items():
                config[name] = ours
    # What the way back gives otherwise is lost.
    back = _stock_flags(Configuration.from_checkpoint(config, {}))
    kept = _flat(TransformerConfig.from_namespace(back))
    lost = [
        f"{flag(name)} {value}"
        for name, value in flags.items()
        if name not in _WITHOUT_EFFECT and value != kept[name] and (value or kept[name])
    ]
    if cfg.decoder.normalize_before and cfg.no_decoder_final_norm:
        lost.append("--no-decoder-final-norm True")
    lost += [flag(name) for name in _UNLISTED if getattr(options, name, False)]
    exported_model.refuse(
        TRANSFORMER, lost, "; decode this model with fairseq itself, or train one without"
    )
    return config


def _flat(cfg: Any, prefix: str = "") -> dict[str, Any]:
    """The options by the names of fairseq's flags; nested ones begin with their side."""
    options: dict[str, Any] = {}
    for name in (field.name for field in fields(cfg) if field.name != "_name"):
        value = getattr(cfg, name)
        options |= _flat(value, f"{name}_") if is_dataclass(value) else {prefix + name: value}
    return options


def import_weights(
    state: Checkpoint, options: argparse.Namespace, source: Dictionary, target: Dictionary
) -> Weights:
    """A stock checkpoint's weights under our names, in the type of the file.

    fairseq itself renames the weights of its older versions: joint projections
    (`in_proj_weight`), numbered norms, `embed_out`. Weights must fit options and dictionaries.
    """
    weights = dict(state["model"])
    for side, dictionary in (("encoder", source), ("decoder", target)):
        embedding = weights.get(f"{side}.embed_tokens.weight")
        if embedding is not None and len(embedding) != len(dictionary):
            raise UserError(
                f"its {side} embeds {len(embedding)} words and the dictionary of --data-bin has "
                f"{len(dictionary)}; give the folder with the dict.*.txt it was trained with"
            )
    for name in ("encoder_layers", "decoder_layers"):
        if (layers := getattr(options, name)) > len(weights):
            raise UserError(f"its {name} are {layers}, and it has {len(weights)} weights")
    paths = dict.fromkeys(f"{side}_embed_path" for side in SIDES)
    built_from = argparse.Namespace(**vars(options) | paths)
    task = argparse.Namespace(source_dictionary=source, target_dictionary=target)
    with torch.device("meta"):  # names and shapes only
        stock = TransformerModel.build_model(built_from, task)
    stock.upgrade_state_dict(weights)
    nn.Module.load_state_dict(stock, weights, assign=True)
    buffers = {name for name, _ in stock.named_buffers()}
    kept = {name: t.detach() for name, t in stock.state_dict().items() if name not in buffers}
    return exported_model.from_fairseq_weights(kept)


def our_model(state: Checkpoint) -> Configuration:
    """The configuration of a checkpoint of ours; refuses another model."""
    options = options_of(state, "model")
    name = options.get("_name") or "another model"
    if family_of(str(name)) != TRANSLATOR:
        raise UserError(f"it holds {name}; export takes a {TRANSFORMER}")
    return Configuration.from_checkpoint(options, state["cfg"].get("task") or {})


def stock_model(
    weights: Weights, cfg: Configuration, allow_layer_norm_eps: bool = False
) -> tuple[Weights, dict[str, Any]]:
    """Our model as fairseq's stock `transformer`.

    fairseq can't compute the paper's sinusoids, so they become a table of learned positions. The
    model then computes the same, but only for as many positions as the table has.

    Returns the weights under fairseq's names, and the options as `stock_options` does.
    """
    obstacles = []
    if cfg.layer_norm_eps != FAIRSEQ_LAYER_NORM_EPS and not allow_layer_norm_eps:
        obstacles.append(
            f"--layer-norm-eps {cfg.layer_norm_eps:g} (there always {FAIRSEQ_LAYER_NORM_EPS:g}; "
            "--allow-layer-norm-eps accepts slightly different outputs)"
        )
    flags = _stock_flags(cfg, obstacles)
    weights = dict(weights)
    if cfg.positions == "sinusoidal":
        like = weights["encoder.embedding.weight"]
        lengths = cfg.max_source_positions, cfg.max_target_positions
        for side, rows in zip(SIDES, lengths, strict=True):
            table = sinusoids(torch.arange(rows, device=like.device), cfg.d_model)
            dtype = torch.promote_types(like.dtype, torch.float32)  # as our models keep it
            weights[f"{side}.positions.weight"] = table.to(dtype)
    named = exported_model.to_fairseq_weights(weights)
    for side in SIDES:
        named[f"{side}.version"] = torch.tensor([3.0], device="cpu")
    return named, vars(flags)


def _stock_flags(cfg: Configuration, obstacles: Iterable[str] = ()) -> argparse.Namespace:
    """The options of a stock `transformer` for ours; refuses `obstacles`, too."""
    both = {"embed_dim": cfg.d_model, "ffn_embed_dim": cfg.d_ff, "attention_heads": cfg.heads}
    both["learned_pos"] = cfg.positions != "sinusoidal-fairseq"
    options = argparse.Namespace(
        **{f"{side}_{name}": value for side in SIDES for name, value in both.items()},
        **{name: getattr(cfg, name) for name in _SAME},
        share_all_embeddings=cfg.share_embeddings == "all",
        share_decoder_input_output_embed=cfg.share_embeddings != "none",
        min_params_to_wrap=TransformerConfig.min_params_to_wrap,
        **exported_model.refuse_departures(FAIRSEQ, cfg, obstacles),
    )
    base_architecture(options)
    return options


def checkpoint_of(
    weights: Weights,
    model: dict[str, Any],
    task: dict[str, Any],
    updates: int = 0,
    task_state: dict[str, Any] | None = None,
) -> Checkpoint:
    """A checkpoint that fairseq loads without any allowed class; without an optimizer's state."""
    sections: Any = OmegaConf.to_container(OmegaConf.structured(FairseqConfig()), enum_to_str=True)
    history: dict[str, Any] = dict.fromkeys(("criterion_name", "optimizer_name"))
    history |= {"lr_scheduler_state": {}, "num_updates": updates}
    iterator = {"version": 2, "epoch": 1, "iterations_in_epoch": 0, "shuffle": True}
    return {
        **dict.fromkeys(("args", "criterion", "last_optimizer_state")),
        "cfg": {**sections, "model": model, "task": task},
        "model": weights,
        "optimizer_history": [history],
        "task_state": task_state or {},
        "extra_state": {"train_iterator": iterator},
    }


def import_stock(
    checkpoint: Path,
    data_bin: Path,
    output: Path,
    source_lang: str | None = None,
    target_lang: str | None = None,
) -> dict[str, Any]:
    """Convert a checkpoint of fairseq's `transformer`, and return the configuration of the model.

    `data_bin` has the dictionaries that it was trained with. None for a language: from the
    checkpoint, or else the names of the dictionaries.
    """
    check_outputs("--output", [output], [checkpoint, *data_bin.glob("dict.*.txt")])
    state = load_checkpoint(checkpoint)
    with naming(checkpoint):
        options = stock_options(state)
        config = our_config(options)
        exported_model.require_finite(state["model"])
        task = stock_task(state)
        flags = {"source_lang": source_lang, "target_lang": target_lang}
        task |= {name: language for name, language in flags.items() if language}
        languages = trained_languages(task, data_bin)
        paths = (data_bin / dictionary_name(language) for language in languages)
        source, target = map(Dictionary.load, paths)
        weights = import_weights(state, options, source, target)
    task |= {name: config[name] for name in config if name.endswith("_positions")}
    task |= {"_name": TRANSLATION, "source_lang": languages[0], "target_lang": languages[1]}
    task["data"] = str(data_bin)
    digests = {"source": source.digest(), "target": target.digest()}
    task_state = {checkpoints.DIGESTS: digests, checkpoints.LANGUAGES: [*languages]}
    model, updates = {"_name": TRANSFORMER, **config}, checkpoints.updates_of(state) or 0
    save_checkpoint(checkpoint_of(weights, model, task, updates, task_state), output)
    return config


def _compare(weights: Weights, cfg: Configuration) -> None:
    """Compare the two models in float32, and with fairseq's epsilon, whichever ours has."""
    rows = [Rows(len(weights[f"{side}.embedding.weight"])) for side in SIDES]
    cfg = replace(cfg, layer_norm_eps=FAIRSEQ_LAYER_NORM_EPS)
    with WithoutInitialWeights(weight.shape for weight in weights.values()):
        ours = build_sizes(TRANSLATOR, cfg, (rows[0], rows[1])).eval()
    ours.load_state_dict(weights)

    def log_p(pairs: exported_model.Pairs) -> Tensor:
        named, options = stock_model({name: w.float() for name, w in weights.items()}, cfg)
        task = argparse.Namespace(source_dictionary=rows[0], target_dictionary=rows[1])
        stock = TransformerModel.build_model(argparse.Namespace(**options), task).eval()
        stock.load_state_dict(named)
        return pairs.log_p(stock(pairs.source, pairs.source.ne(PAD).sum(dim=1), pairs.previous)[0])

    exported_model.require_equal(FAIRSEQ, ours, log_p)


def export_to_fairseq(model: Path, output: Path, allow_layer_norm_eps: bool = False) -> Path:
    """Write a bundle or a checkpoint for stock fairseq, and return the path of its weights.

    `allow_layer_norm_eps` accepts that fairseq's LayerNorm always has epsilon 1e-5.
    """
    path = weights_path(model) if model.is_dir() else model
    state = load_checkpoint(path)
    with naming(path):
        cfg = our_model(state)
        exported_model.require_finite(state["model"])
        check_outputs("--output", [output], [path])
        weights, options = stock_model(state["model"], cfg, allow_layer_norm_eps)
        _compare(state["model"], cfg)
        task = state["cfg"]["task"]
        kept = ("data", "source_lang", "target_lang", "left_pad_source", "left_pad_target")
        positions = {n: getattr(cfg, n) for n in ("max_source_positions", "max_target_positions")}
        task = {name: task[name] for name in kept if task.get(name) is not None} | positions
        options |= dict.fromkeys(("_name", "arch"), "transformer")
        task["_name"] = "translation"
        save_checkpoint(
            checkpoint_of(weights, options, task, checkpoints.updates_of(state) or 0), output
        )
    return path
