"""Averaged = mean (against NumPy in float64), and every reason to refuse a checkpoint."""

import argparse
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from vaswani_plugin.export.average import (
    Averager,
    average_checkpoints,
    shared_owners,
)
from vaswani_plugin.inference.checkpoints import save_checkpoint
from vaswani_plugin.inference.safetensors_file import model_config

CONFIG = {"_name": "some_arch", "d_model": 4}


def average(*models: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    averager = Averager()
    for number, model in enumerate(models):
        averager.add(f"file{number}", model, CONFIG)
    return averager.mean()


def random_models(count: int, dtype: torch.dtype) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(3)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    return [{"a.weight": draw(3, 4), "a.bias": draw(4), "scalar": draw()} for _ in range(count)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_average_is_the_mean_in_its_stored_type(dtype: torch.dtype) -> None:
    models = random_models(7, dtype)
    result = average(*models)
    assert list(result) == list(models[0])
    for key, tensor in result.items():
        mean = np.mean([model[key].to(torch.float64).numpy() for model in models], axis=0)
        assert tensor.dtype == dtype and tensor.shape == models[0][key].shape
        # One rounding at the end: what NumPy's mean gives after the same cast.
        step = torch.finfo(dtype).eps if dtype != torch.float64 else 1e-15
        expected = torch.tensor(mean).to(dtype).to(torch.float64)
        torch.testing.assert_close(tensor.to(torch.float64), expected, rtol=step, atol=1e-15)


def test_sums_do_not_lose_small_weights() -> None:
    # In float32, 1e8 + 1 is 1e8; in float16, the sum of two 60000 is infinite.
    values = (1e8, 1.0, -1e8)
    single = average(*({"w": torch.tensor([value])} for value in values))
    assert single["w"].item() == pytest.approx(1 / 3, rel=1e-6)
    half = average(*[{"w": torch.tensor([60000.0], dtype=torch.float16)}] * 2)
    assert half["w"].item() == 60000.0


@settings(max_examples=30, deadline=None)
@given(
    hnp.arrays(np.float64, (4, 5), elements=st.floats(-1e6, 1e6)),
    st.permutations(range(4)),
)
def test_order_of_checkpoints_is_inert(rows: np.ndarray, order: list[int]) -> None:
    forward = average(*({"w": torch.tensor(row)} for row in rows))["w"]
    shuffled = average(*({"w": torch.tensor(rows[i])} for i in order))["w"]
    np.testing.assert_allclose(forward.numpy(), shuffled.numpy(), rtol=0, atol=1e-8)
    np.testing.assert_allclose(forward.numpy(), rows.mean(axis=0), rtol=0, atol=1e-8)


def test_average_of_one_is_itself_and_inputs_stay() -> None:
    (model,) = random_models(1, torch.float32)
    before = {key: tensor.clone() for key, tensor in model.items()}
    result = average(model)
    assert all(torch.equal(result[key], before[key]) for key in before)
    average(model, *random_models(2, torch.float32))
    assert all(torch.equal(model[key], before[key]) for key in before)


def test_integers_must_agree_and_stay_integers() -> None:
    model = {"version": torch.tensor([3]), "flags": torch.tensor([True])}
    result = average(model, model)
    assert result["version"].dtype == torch.int64 and result["version"].item() == 3
    assert result["flags"].dtype == torch.bool
    with pytest.raises(ValueError, match="file1: version holds other integers than in file0"):
        average(model, model | {"version": torch.tensor([4])})


def test_shared_tensors_are_averaged_once_and_stay_shared() -> None:
    def tied(value: float) -> dict[str, torch.Tensor]:
        table = torch.full((2, 3), value)
        return {"encoder": table, "decoder": table, "other": torch.full((2, 3), value)}

    result = average(tied(1.0), tied(2.0))
    assert result["encoder"] is result["decoder"]
    assert result["other"] is not result["encoder"]
    assert result["decoder"].tolist() == [[1.5] * 3] * 2
    untied = {key: tensor.clone() for key, tensor in tied(2.0).items()}
    with pytest.raises(ValueError, match="file1: decoder shares its storage differently"):
        average(tied(1.0), untied)


def test_views_and_empty_tensors_are_not_taken_for_shared() -> None:
    table = torch.arange(6.0)
    model = {"a": table[:3], "b": table[3:], "c": torch.empty(0), "d": torch.empty(0)}
    assert shared_owners(model) == {key: key for key in model}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"b": None}, "file1: lacks the weight b, unlike file0"),
        ({"c": torch.zeros(1)}, "file1: has the weight c, unlike file0"),
        ({"b": torch.zeros(3)}, r"file1: the shape of b is \(3,\) here and \(2,\) in file0"),
        ({"b": torch.zeros(2).half()}, "file1: the type of b is torch.float16 here and torch.fl"),
    ],
)
def test_other_weights_are_refused(change: dict, message: str) -> None:
    first = {"a": torch.zeros(2), "b": torch.zeros(2)}
    second = {key: tensor for key, tensor in (first | change).items() if tensor is not None}
    # Not the two-element zeros of the first file: another memory.
    second = {key: tensor.clone() for key, tensor in second.items()}
    with pytest.raises(ValueError, match=message):
        average(first, second)


def test_other_configs_are_refused() -> None:
    averager = Averager()
    averager.add("one.pt", {"a": torch.zeros(1)}, CONFIG)
    for change, key in (({"d_model": 8}, "d_model is 8"), ({"new": 1}, "new is 1")):
        with pytest.raises(ValueError, match=f"two.pt: another model than one.pt: {key}"):
            averager.add("two.pt", {"a": torch.zeros(1)}, CONFIG | change)
    with pytest.raises(ValueError, match="_name is '.absent.' here and 'some_arch' there"):
        averager.add("two.pt", {"a": torch.zeros(1)}, {"d_model": 4})


def test_nothing_to_average() -> None:
    with pytest.raises(ValueError, match="at least one checkpoint"):
        Averager().mean()


def test_config_of_a_model_without_a_dataclass_leaves_the_run_out() -> None:
    def state(**flags: object) -> dict:
        sections = {"common": {"seed": 1}, "checkpoint": {"save_dir": "x"}, "task": {"data": "d"}}
        return {"cfg": sections | {"model": argparse.Namespace(arch="t", **flags)}}

    config = model_config(state(seed=2, save_dir="y", data="e", task="translation", dropout=0.1))
    assert config == {"arch": "t", "dropout": 0.1}
    assert model_config({"cfg": {"model": {"_name": "x", "seed": 3}}}) == {"_name": "x", "seed": 3}
    old = {"args": argparse.Namespace(arch="t", dropout=0.1), "cfg": None}
    assert model_config(old) == {"arch": "t", "dropout": 0.1}


def write(path: Path, value: float, **more: object) -> Path:
    extra = {"train_iterator": {"epoch": int(value)}, "ema": {"w": torch.zeros(1)}}
    state = {
        "cfg": {"model": dict(CONFIG)},
        "model": OrderedDict(w=torch.tensor([value])),
        "last_optimizer_state": {"state": torch.ones(5)},
        "optimizer_history": [{"num_updates": int(value)}],
        "extra_state": extra,
    }
    save_checkpoint(state | more, path)
    return path


def test_files_are_averaged_into_the_newest(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"checkpoint{n}.pt", float(n)) for n in (1, 2, 6)]
    result = average_checkpoints(iter(paths))
    assert result["model"]["w"].tolist() == [3.0]
    assert result["optimizer_history"] == [{"num_updates": 6}]
    assert result["last_optimizer_state"] is None
    assert result["extra_state"] == {
        "train_iterator": {"epoch": 6},
        "averaged": ["checkpoint1.pt", "checkpoint2.pt", "checkpoint6.pt"],
    }


def test_mismatched_files_are_named(tmp_path: Path) -> None:
    good = write(tmp_path / "good.pt", 1.0)
    bad = write(tmp_path / "bad.pt", 2.0, cfg={"model": CONFIG | {"d_model": 5}})
    with pytest.raises(ValueError, match=r"bad\.pt: another model than .*good\.pt: d_model is 5"):
        average_checkpoints([good, bad])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_training_that_diverged_is_refused(tmp_path: Path, value: float) -> None:
    """One such file would spoil the mean of all."""
    model = {"w": torch.tensor([value])}
    paths = [write(tmp_path / "good.pt", 1.0), write(tmp_path / "bad.pt", 2.0, model=model)]
    with pytest.raises(ValueError, match=r"bad\.pt: w holds NaN or infinity"):
        average_checkpoints(paths)
