"""Every row of Table 3 through fairseq's parser and build: sizes and parameter counts."""

import argparse
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from fairseq import models
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq_flags import PLUGIN, model_config, training_config
from hydra import compose, initialize_config_dir
from model_factory import make_dictionary
from omegaconf import DictConfig, OmegaConf

from tests.conftest import ancestors
from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.models.transformer import VaswaniTransformer
from vaswani_plugin.model.architectures import ARCHITECTURES
from vaswani_plugin.model.families import families, family_of
from vaswani_plugin.modules.embedding import LearnedPositions, SinusoidalPositions

ROWS_OF_THE_MATRIX = 40_960
ROWS = {row.name: row for row in ARCHITECTURES}
HYDRA_CONFIGS = PLUGIN.parent / "recipes/config"


class Row(NamedTuple):
    """Table 3, written out again from the paper; the counts follow from 40,960 rows."""

    n: int = 6
    d_model: int = 512
    d_ff: int = 2048
    h: int = 8
    d_k: int = 64
    d_v: int = 64
    dropout: float = 0.1
    parameters: int = 65_110_016
    printed: int | None = None


TABLE_3 = {
    "vaswani_base": Row(printed=65),
    "vaswani_a_h1": Row(h=1, d_k=512, d_v=512),
    "vaswani_a_h4": Row(h=4, d_k=128, d_v=128),
    "vaswani_a_h16": Row(h=16, d_k=32, d_v=32),
    "vaswani_a_h32": Row(h=32, d_k=16, d_v=16),
    "vaswani_b_dk16": Row(d_k=16, parameters=58_018_304, printed=58),
    "vaswani_b_dk32": Row(d_k=32, parameters=60_382_208, printed=60),
    "vaswani_c_n2": Row(n=2, parameters=35_684_352, printed=36),
    "vaswani_c_n4": Row(n=4, parameters=50_397_184, printed=50),
    "vaswani_c_n8": Row(n=8, parameters=79_822_848, printed=80),
    "vaswani_c_d256": Row(d_model=256, d_k=32, d_v=32, parameters=27_848_704, printed=28),
    "vaswani_c_d1024": Row(d_model=1024, d_k=128, d_v=128, parameters=167_944_192, printed=168),
    "vaswani_c_ff1024": Row(d_ff=1024, parameters=52_514_816, printed=53),
    "vaswani_c_ff4096": Row(d_ff=4096, parameters=90_300_416, printed=90),
    "vaswani_d_drop00": Row(dropout=0.0),
    "vaswani_d_drop02": Row(dropout=0.2),
    # Two tables of 1,024 learned positions come on top.
    "vaswani_e_learned": Row(parameters=65_110_016 + 2 * 1024 * 512),
    "vaswani_big": Row(6, 1024, 4096, 16, 64, 64, 0.3, 218_300_416, printed=213),
    "vaswani_big_en_fr": Row(6, 1024, 4096, 16, 64, 64, 0.1, 218_300_416),
    # Ours.
    "vaswani_tiny": Row(4, 128, 256, 4, 32, 32, 0.1, 6_567_936),
    "vaswani_debug": Row(2, 32, 64, 4, 8, 8, 0.1, 1_353_472),
}


@pytest.fixture(scope="module")
def task():
    dictionary = make_dictionary(ROWS_OF_THE_MATRIX - 4)
    return SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)


def build(cfg, task):
    """fairseq's own build, without memory behind the parameters."""
    with torch.device("meta"):
        return models.build_model(cfg, task)


@pytest.mark.parametrize("name", TABLE_3)
def test_row_through_parser_and_build(name, task):
    row = TABLE_3[name]
    model = build(model_config("--arch", name), task)
    assert type(model) is VaswaniTransformer
    assert sum(p.numel() for p in model.parameters()) == row.parameters
    assert len(model.encoder.layers) == len(model.decoder.layers) == row.n
    for layer in (*model.encoder.layers, *model.decoder.layers):
        attentions = [layer.self_attention, getattr(layer, "cross_attention", None)]
        for attention in filter(None, attentions):
            assert attention.heads == row.h and attention.dropout == 0
            assert attention.query.weight.shape == (row.h * row.d_k, row.d_model)
            assert attention.key.weight.shape == (row.h * row.d_k, row.d_model)
            assert attention.value.weight.shape == (row.h * row.d_v, row.d_model)
        assert layer.feed_forward.w_1.weight.shape == (row.d_ff, row.d_model)
        assert layer.feed_forward.dropout == 0
        assert layer.self_attention_norm.dropout == layer.feed_forward_norm.dropout == row.dropout
    assert model.encoder.dropout == model.decoder.dropout == row.dropout
    assert model.projection_weight is model.encoder.embedding.weight
    assert model.projection_weight.shape == (ROWS_OF_THE_MATRIX, row.d_model)
    learned = name == "vaswani_e_learned"
    kind = LearnedPositions if learned else SinusoidalPositions
    assert type(model.encoder.positions) is type(model.decoder.positions) is kind
    assert model.max_positions() == (1024, 1024)
    assert ROWS[name].printed_parameters == row.printed
    if row.printed is not None:
        assert (round(row.parameters / 1e6) == row.printed) == (name != "vaswani_big")


WITH_THEIR_FAMILIES = {row.name: family for family in families() for row in family.rows}


def test_a_name_in_a_checkpoint_tells_the_model():
    for name, family in WITH_THEIR_FAMILIES.items():
        assert family_of(name) == family_of(family.model), name
        assert family_of(name).model == family.model, name
    assert family_of("vaswani_my_own") is family_of("transformer_iwslt_de_en") is None


def hydra_configuration(name: str, *overrides: str) -> DictConfig:
    """What fairseq-hydra-train is given for a row."""
    family = WITH_THEIR_FAMILIES[name]
    training = family.task.removeprefix("vaswani_") + "_lstm" * ("lstm" in family.model)
    with initialize_config_dir(str(HYDRA_CONFIGS), version_base="1.1"):  # as fairseq does
        return compose(training, [f"model={name}", "task.data=unused", *overrides])


ENDS = dict.fromkeys(row.name for family in families() for row in (family.rows[0], family.rows[-1]))


@pytest.mark.parametrize("name", ENDS)
def test_hydra_configuration_is_what_the_flags_give(name: str):
    """model=ROW sets what --arch ROW sets, key for key."""
    family = WITH_THEIR_FAMILIES[name]
    written = hydra_configuration(name)
    flags = training_config("--task", family.task, "--arch", name)
    for group in ("model", "criterion", "optimizer", "lr_scheduler"):
        expected = OmegaConf.to_container(flags[group], resolve=True)
        expected["_name"] = written[group]["_name"]  # --arch leaves the row's name here
        shared_keys = {"arch", "lr", "sentence_avg"}  # of other groups, by interpolation
        assert set(expected) - set(written[group]) <= shared_keys
        for key in set(written[group]) - shared_keys:
            assert written[group][key] == expected[key], f"{group}.{key}"
    assert written.model._name == family.model
    assert written.task._name == family.task
    for key in set(written.task) - {"_name", "data"}:
        assert written.task[key] == flags.task[key], key
    assert written.optimization.max_update == 100_000
    assert written.optimization.get("clip_norm", 0.0) == flags.optimization.clip_norm


def test_a_flag_wins_over_its_row(task):
    cfg = training_config("--arch", "vaswani_big", "--d-ff", "64", "--dropout", "0")
    assert (cfg.model.d_ff, cfg.model.d_model, cfg.model.heads) == (64, 1024, 16)
    assert cfg.model.dropout == 0
    model = build(cfg.model, task)
    assert model.decoder.layers[0].feed_forward.w_1.weight.shape == (64, 1024)
    assert model.encoder.dropout == 0


@pytest.mark.parametrize(
    ("arch", "task"), [("vaswani_big", "language_modeling"), ("vaswani_lm_tiny", "translation")]
)
def test_a_row_goes_with_its_task(arch, task):
    with pytest.raises(UserError, match=f"--arch {arch}: not with --task {task}; give --task"):
        ARCH_CONFIG_REGISTRY[arch](argparse.Namespace(task=task))


def test_with_no_other_flag_the_run_is_the_paper():
    cfg = training_config("--arch", "vaswani_base", "--max-tokens", "4096")
    assert cfg.criterion._name == "vaswani_label_smoothing"
    assert cfg.criterion.label_smoothing == 0.1
    assert cfg.optimizer._name == "vaswani_adam"
    assert (cfg.optimizer.adam_betas, cfg.optimizer.adam_eps) == ("(0.9, 0.98)", 1e-9)
    assert cfg.optimizer.weight_decay == 0
    assert cfg.lr_scheduler._name == "vaswani"
    assert (cfg.lr_scheduler.warmup_updates, cfg.lr_scheduler.lr_factor) == (4000, 1.0)
    assert cfg.lr_scheduler.d_model == 512
    assert cfg.optimization.clip_norm == 0
    flags = ("--arch", "vaswani_big", "--d-model", "96")
    assert training_config(*flags).lr_scheduler.d_model == 96  # the schedule reads the width


@ancestors
def test_recurrent_models_clip_gradients_unless_told_otherwise():
    lstm = ("--task", "vaswani_language_modeling", "--arch", "vaswani_lm_lstm_tiny")
    for flags, norm in (((), 0.25), (("--clip-norm", "3"), 3.0), (("--clip-norm", "0"), 0.0)):
        assert training_config(*lstm, *flags).optimization.clip_norm == norm


def test_given_names_win_over_the_registered_defaults():
    cfg = training_config(
        *("--arch", "vaswani_debug", "--optimizer", "adam", "--lr-scheduler", "fixed"),
        *("--criterion", "cross_entropy"),
    )
    names = (cfg.optimizer._name, cfg.lr_scheduler._name, cfg.criterion._name)
    assert names == ("adam", "fixed", "cross_entropy")
    assert REGISTRIES["optimizer"]["default"] == "vaswani_adam"
