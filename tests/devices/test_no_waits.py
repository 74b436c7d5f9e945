"""Training, evaluation and search only launch kernels: they run on `meta`, where waiting raises."""

import pytest
import torch
from meta import (
    HAVE_SOURCES,
    KINDS,
    META,
    RECURRENT,
    ROWS,
    CopyBetweenDevices,
    launches_only,
    make_criterion,
    make_meta_model,
    make_meta_sample,
    make_meta_task,
    shallow,
    train_step,
)

from vaswani_plugin.modules import recurrent

LENGTHS = {
    "no padding": [7, 7, 7],
    "longest first": [7, 5, 2],
    "any order": [5, 7, 2],
    "unknown": None,
}
"""Of the three sources, as the host counted them."""


@pytest.fixture
def counted(monkeypatch):
    """The one place where recurrent models wait if the host did not count, and what it says."""
    calls = []

    def count(padding: torch.Tensor) -> torch.Tensor:
        calls.append(padding)
        return torch.tensor([5, 7, 2], device="cpu")

    monkeypatch.setattr(recurrent, "lengths_on_cpu", count)
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
    with pytest.raises((RuntimeError, NotImplementedError, CopyBetweenDevices)), launches_only():
        wait(torch.empty(2, device=META))


def lengths_for(name: str, training: bool) -> list[list[int] | None]:
    """A language model's batches have no sources. Lengths count in the forward pass alone."""
    family, _ = ROWS[name]
    if family.model not in HAVE_SOURCES:
        return [None]
    return [LENGTHS[key] for key in (("any order", "unknown") if training else LENGTHS)]


@pytest.mark.parametrize("name", sorted(KINDS))
@pytest.mark.parametrize("training", [True, False])
def test_every_model_only_launches_kernels(name, training, counted):
    """An update, and an evaluation."""
    family, row = ROWS[name]
    task = make_meta_task(family)
    model = make_meta_model(family, row, task, **shallow(family)).train(training)
    for lengths in lengths_for(name, training):
        counted.clear()
        sample = make_meta_sample(model, known_lengths=lengths)
        if training:
            loss = train_step(task, model, sample)
        else:
            with launches_only(), torch.no_grad():
                loss, _, _ = make_criterion(task)(model, sample)
        assert loss.device == META and loss.shape == ()
        assert len(counted) == (family.model in RECURRENT and lengths is None)
