"""A configuration: read from a checkpoint, and checked."""

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


@pytest.mark.parametrize("name", ["positions", "share_embeddings"])
def test_a_word_that_is_none_of_the_choices_is_refused(name):
    flag = f"--{name.replace('_', '-')} is 'newer' in the model's configuration; must be one of "
    with pytest.raises(UserError, match=f"^{flag}(sinusoidal|all), "):
        Configuration.from_checkpoint({name: "newer"}, {})


def test_sizes_of_the_heads():
    assert head_sizes(Configuration()) == (64, 64)
    assert head_sizes(Configuration(d_k=3)) == (3, 64)
    assert head_sizes(Configuration(d_model=31, heads=5, d_k=3, d_v=7)) == (3, 7)
    with pytest.raises(UserError, match="^--heads 5 does not divide --d-model 512; choose heads"):
        head_sizes(Configuration(heads=5, d_v=7))
