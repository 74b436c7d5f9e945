"""A configuration: read from a checkpoint, and checked."""

import re
from dataclasses import asdict

import pytest

from vaswani_plugin.errors import UserError
from vaswani_plugin.model.configuration import Configuration

OF_THE_TASK = ("max_source_positions", "max_target_positions")


def test_what_a_checkpoint_lacks_is_the_default():
    model = {"_name": "vaswani_base", "d_model": 64, "d_k": 8, "compile": False, "unheard_of": 1}
    sizes = Configuration.from_checkpoint(model, {"max_source_positions": 77})
    expected = asdict(Configuration()) | {"d_model": 64, "d_k": 8, "max_source_positions": 77}
    assert asdict(sizes) == expected


def test_the_models_own_positions_come_before_the_tasks():
    model, task = dict.fromkeys(OF_THE_TASK, 30), dict.fromkeys(OF_THE_TASK, 20)
    sizes = Configuration.from_checkpoint(model, task)
    assert (sizes.max_source_positions, sizes.max_target_positions) == (30, 30)


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("d_model", "64", "--d-model is '64' in the model's configuration; must be a whole number"),
        ("d_model", 64.0, "must be a whole number"),
        ("d_model", True, "must be a whole number"),
        ("d_model", None, "must be a whole number"),
        ("d_k", [1], "--d-k is [1] in the model's configuration; must be a whole number"),
        ("dropout", "x", "must be a number"),
        ("next_word", 1, "must be true or false"),
        ("positions", "none", "must be one of sinusoidal, sinusoidal-fairseq, learned"),
        ("share_embeddings", 3, "must be one of all, decoder, none"),
        ("max_target_positions", "${task.x}", "must be a whole number"),
    ],
)
def test_another_kind_of_value_is_refused(name, value, part):
    with pytest.raises(UserError, match=re.escape(part)):
        Configuration.from_checkpoint({name: value}, {})


def test_whole_numbers_are_numbers():
    assert Configuration.from_checkpoint({"dropout": 0, "d_v": None}, {}).dropout == 0


@pytest.mark.parametrize("name", ["dropout", "attention_dropout", "activation_dropout"])
@pytest.mark.parametrize("p", [1.5, 1.0, -0.1, float("nan")])
def test_dropouts_out_of_range_are_refused(name, p):
    flag = "--" + name.replace("_", "-")
    part = f"{flag} is {p}; it must be from 0 to below 1"
    with pytest.raises(UserError, match=f"^{re.escape(part)}$"):
        Configuration(**{name: p}).check()


@pytest.mark.parametrize("name", ["d_ff", "decoder_layers", *OF_THE_TASK])
def test_sizes_below_1_are_refused(name):
    flag = "--" + name.replace("_", "-")
    with pytest.raises(UserError, match=f"^{flag} is -3; it must be at least 1$"):
        Configuration(**{name: -3}).check()


@pytest.mark.parametrize("eps", [-1e-6, float("nan"), float("inf")])
def test_epsilons_out_of_range_are_refused(eps):
    with pytest.raises(UserError, match=f"^--layer-norm-eps is {eps}; it must be a number from 0$"):
        Configuration(layer_norm_eps=eps).check()


@pytest.mark.parametrize("p", [0, 0.0, 0.999])
def test_dropouts_in_range_are_taken(p):
    Configuration(dropout=p, activation_dropout=7.0).check_dropouts(("dropout",))
    Configuration(dropout=p, attention_dropout=p, activation_dropout=p).check()
