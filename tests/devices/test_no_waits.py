"""Training, evaluation and search only launch kernels: they run on `meta`, where waiting raises."""

import meta
import pytest
import torch

from vaswani_plugin.model.families import ELSEWHERE

LENGTHS = {"equal": [7, 7, 7], "longest first": [7, 5, 2], "any order": [5, 7, 2], "unknown": None}
"""Of the three sources, as the host counted them."""


@pytest.fixture
def counted(monkeypatch):
    """The one place where recurrent models wait if the host did not count, and what it says."""
    calls = []

    def count(padding: torch.Tensor) -> torch.Tensor:
        calls.append(padding)
        return torch.tensor([5, 7, 2], device="cpu")

    if ELSEWHERE:
        monkeypatch.setattr("vaswani_plugin.ancestors.recurrent.lengths_on_cpu", count)
    return calls


WAITS = {
    "item": lambda x: x.sum().item(),
    "mask": lambda x: x[x > 0],
    "from the host": lambda x: torch.zeros(2, device="cpu").to(x.device),
    "into it": lambda x: x.copy_(torch.zeros(2, device="cpu")),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_what_waits_raises(wait):
    """Otherwise the tests below would prove nothing."""
    with (
        pytest.raises((RuntimeError, NotImplementedError, meta.CopyBetweenDevices)),
        meta.launches_only(),
    ):
        wait(torch.empty(2, device=meta.META))


def lengths_for(name: str, training: bool) -> list[list[int] | None]:
    """A language model's batches have no sources. Lengths count in the forward pass alone."""
    family, _ = meta.ROWS[name]
    if family.model not in meta.HAVE_SOURCES:
        return [None]
    return [LENGTHS[key] for key in (("any order", "unknown") if training else LENGTHS)]


@pytest.mark.parametrize("name", sorted(meta.KINDS))
@pytest.mark.parametrize("training", [True, False])
def test_every_model_only_launches_kernels(name, training, counted):
    """An update, and an evaluation."""
    family, row = meta.ROWS[name]
    task = meta.make_meta_task(family)
    model = meta.make_meta_model(family, row, task, **meta.shallow(family)).train(training)
    for lengths in lengths_for(name, training):
        counted.clear()
        sample = meta.make_meta_sample(model, known_lengths=lengths)
        if training:
            loss = meta.train_step(task, model, sample)
        else:
            with meta.launches_only(), torch.no_grad():
                loss, _, _ = meta.make_criterion(task)(model, sample)
        assert loss.device == meta.META and loss.shape == ()
        assert len(counted) == (family.model in meta.RECURRENT and lengths is None)
