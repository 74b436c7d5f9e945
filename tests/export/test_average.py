"""Averaged = mean (against NumPy in float64), and every reason to refuse a checkpoint."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vaswani_plugin.export.average import average_checkpoints, select
from vaswani_plugin.export.checkpoints import model_config, save_checkpoint
from vaswani_plugin.inference.checkpoints import load_checkpoint

CONFIG = {"_name": "some_arch", "d_model": 4}
Weights = dict[str, torch.Tensor]


def write(path: Path, model: Weights, **more: object) -> Path:
    save_checkpoint({"cfg": {"model": CONFIG}, "model": model} | more, path)
    return path


def average(folder: Path, *models: Weights) -> Weights:
    paths = [write(folder / f"file{n}.pt", model) for n, model in enumerate(models)]
    return average_checkpoints(paths)["model"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_average_is_the_mean_in_its_stored_type(dtype: torch.dtype, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(3)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    models = [{"a.weight": draw(3, 4), "a.bias": draw(4), "scalar": draw()} for _ in range(7)]
    result = average(tmp_path, *models)
    assert list(result) == list(models[0])
    for key, tensor in result.items():
        mean = np.mean([model[key].to(torch.float64).numpy() for model in models], axis=0)
        assert tensor.dtype == dtype and tensor.shape == models[0][key].shape
        # One rounding at the end: what NumPy's mean gives after the same cast.
        expected = torch.tensor(mean).to(dtype).to(torch.float64)
        step = torch.finfo(dtype).eps
        torch.testing.assert_close(tensor.to(torch.float64), expected, rtol=step, atol=1e-15)


def test_sums_do_not_lose_small_weights(tmp_path: Path) -> None:
    # In float32, 1e8 + 1 is 1e8; in float16, the sum of two 60000 is infinite.
    values = (1e8, 1.0, -1e8)
    single = average(tmp_path, *({"w": torch.tensor([value])} for value in values))
    assert single["w"].item() == pytest.approx(1 / 3, rel=1e-6)
    half = average(tmp_path, *[{"w": torch.tensor([60000.0], dtype=torch.float16)}] * 2)
    assert half["w"].item() == 60000.0


def test_shared_tensors_and_integers_stay_what_they_are(tmp_path: Path) -> None:
    def tied(value: float) -> Weights:
        table = torch.full((2, 3), value)
        integers = {"version": torch.tensor([3]), "flags": torch.tensor([True])}
        return {"encoder": table, "decoder": table, "other": torch.full((2, 3), value), **integers}

    result = average(tmp_path, tied(1.0), tied(2.0))
    assert result["encoder"] is result["decoder"]
    assert result["other"] is not result["encoder"]
    assert result["decoder"].tolist() == [[1.5] * 3] * 2
    assert result["version"].dtype == torch.int64 and result["version"].item() == 3
    assert result["flags"].dtype == torch.bool and result["flags"].item()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"b": None}, r"the weight b is \(absent\) here and torch.float32 \(2,\) there"),
        ({"b": torch.zeros(2).half()}, "the weight b is torch.float16"),
        ({"config": CONFIG | {"d_model": 8}}, "d_model is 8 here and 4 there"),
        ({"task": {"source_lang": "en", "target_lang": "fr"}}, "target_lang is fr here and de"),
        ({"told": {"languages": ["de", "en"]}}, "source_lang is de here and en there"),
        (
            {"told": {"dictionary_sha256": {"source": "aa"}}},
            r"the source dictionary is aa here and bb",
        ),
    ],
)
def test_another_model_is_refused(change: dict, message: str, tmp_path: Path) -> None:
    first: dict[str, Any] = {"a": torch.zeros(2), "b": torch.zeros(2)}
    task = {"source_lang": "en", "target_lang": "de"}
    digests = {"dictionary_sha256": {"source": "bb"}}
    untold = write(tmp_path / "none.pt", first, cfg={"model": CONFIG | {"compile": True}})
    paths = [
        write(tmp_path / "one.pt", first, cfg={"model": CONFIG, "task": task}, task_state=digests)
    ]
    assert average_checkpoints([*paths, untold, *paths])["extra_state"]["averaged"]
    cfg = {"model": change.pop("config", CONFIG), "task": change.pop("task", task)}
    state = change.pop("told", {})
    second = {k: v.clone() for k, v in first.items()} | change
    second = {key: tensor for key, tensor in second.items() if tensor is not None}
    paths.append(write(tmp_path / "two.pt", second, cfg=cfg, task_state=state))
    with pytest.raises(ValueError, match=rf"two\.pt: another model than one\.pt: {message}"):
        average_checkpoints(paths)


def test_config_of_a_model_without_a_dataclass_leaves_the_run_out() -> None:
    def state(**flags: object) -> dict:
        sections = {"common": {"seed": 1}, "checkpoint": {"save_dir": "x"}, "task": {"data": "d"}}
        return {"cfg": sections | {"model": argparse.Namespace(arch="t", **flags)}}

    config = model_config(state(seed=2, save_dir="y", data="e", task="translation", dropout=0.1))
    assert config == {"arch": "t", "dropout": 0.1}
    assert model_config({"cfg": {"model": {"_name": "x", "seed": 3}}}) == {"_name": "x", "seed": 3}
    old = {"args": argparse.Namespace(arch="t", dropout=0.1), "cfg": None}
    assert model_config(old) == {"arch": "t", "dropout": 0.1}


def numbered(folder: Path, epochs: Iterable[int]) -> list[Path]:
    return [
        write(
            folder / f"checkpoint{n}.pt",
            {"w": torch.tensor([float(n)])},
            last_optimizer_state={"state": torch.ones(5)},
            optimizer_history=[{"num_updates": n}],
            extra_state={"train_iterator": {"epoch": n}, "ema": {"w": torch.zeros(1)}},
        )
        for n in epochs
    ]


def test_files_are_averaged_into_the_newest(tmp_path: Path) -> None:
    result = average_checkpoints(iter(numbered(tmp_path, (1, 2, 6))))
    save_checkpoint(result, tmp_path / "average.pt")
    result = load_checkpoint(tmp_path / "average.pt")
    assert result["model"]["w"].tolist() == [3.0]
    assert result["optimizer_history"] == [{"num_updates": 6}]
    assert result["last_optimizer_state"] is None
    averaged = ["checkpoint1.pt", "checkpoint2.pt", "checkpoint6.pt"]
    assert result["extra_state"] == {"train_iterator": {"epoch": 6}, "averaged": averaged}


def test_of_a_training_without_a_validation_the_last_state_is_taken(tmp_path: Path) -> None:
    (last,) = numbered(tmp_path, [7])
    last = last.rename(tmp_path / "checkpoint_last.pt")
    assert select([tmp_path], best=5, at_most=True) == [last]
    with pytest.raises(ValueError, match="has none named checkpoint.best_METRIC_VALUE.pt; ask"):
        select([tmp_path], best=5)


def test_a_training_that_diverged_is_refused(tmp_path: Path) -> None:
    models = [{"w": torch.ones(1)}, {"w": torch.tensor([float("inf")])}]
    with pytest.raises(ValueError, match=r"file1\.pt: w holds NaN or infinity"):
        average(tmp_path, *models)
