"""A configuration: read from a checkpoint, and checked."""

import re
from dataclasses import asdict

import pytest

from vaswani_plugin.errors import UserError
from vaswani_plugin.model.configuration import Configuration, head_sizes

OF_THE_TASK = ("max_source_positions", "max_target_positions")


def test_what_a_checkpoint_lacks_is_the_default():
    model = {"_name": "vaswani_base", "d_model": 64, "d_k": 8, "compile": False, "unheard_of": 1}
    model |= {"dropout": 0, "d_v": None}  # a whole number is a number
    sizes = Configuration.from_checkpoint(model, {"max_source_positions": 77})
    expected = asdict(Configuration()) | {"d_model": 64, "d_k": 8, "max_source_positions": 77}
    expected["dropout"] = 0
    assert asdict(sizes) == expected


def test_the_models_own_positions_come_before_the_tasks():
    model, task = dict.fromkeys(OF_THE_TASK, 30), dict.fromkeys(OF_THE_TASK, 20)
    sizes = Configuration.from_checkpoint(model, task)
    assert (sizes.max_source_positions, sizes.max_target_positions) == (30, 30)


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("d_model", "64", "--d-model is '64' in the model's configuration; must be a whole number"),
        ("d_model", True, "must be a whole number"),
        ("d_k", [1], "--d-k is [1] in the model's configuration; must be a whole number"),
        ("dropout", "x", "must be a number"),
        ("next_word", 1, "must be true or false"),
        ("positions", "none", "must be one of sinusoidal, sinusoidal-fairseq, learned"),
        ("share_embeddings", 3, "must be one of all, decoder, none"),
    ],
)
def test_another_kind_of_value_is_refused(name, value, part):
    with pytest.raises(UserError, match=re.escape(part)):
        Configuration.from_checkpoint({name: value}, {})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dropout": 1.0}, "--dropout is 1.0; it must be from 0 to below 1"),
        ({"activation_dropout": float("nan")}, "--activation-dropout is nan; it must be"),
        ({"d_k": 0}, "--d-k is 0; it must be at least 1"),
        ({"heads": 5}, "--heads 5 does not divide --d-model 512; choose heads that do, or give"),
        ({"decoder_layers": 0}, "--decoder-layers is 0; it must be at least 1"),
        ({"attention_window": -1}, "--attention-window is -1; 0 means no restriction"),
        ({"d_model": 31, "heads": 1}, "--d-model is 31; sinusoidal positions need an even"),
        ({"layer_norm_eps": float("inf")}, "--layer-norm-eps is inf; it must be a number from 0"),
    ],
)
def test_sizes_that_cannot_be_are_refused(changes, message):
    cfg = Configuration(**changes)
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        cfg.check()
        head_sizes(cfg)


def test_others_are_taken():
    cfg = Configuration(dropout=0.999, d_model=31, heads=5, d_k=3, d_v=7, positions="learned")
    cfg.check()
    assert head_sizes(cfg) == (3, 7)
