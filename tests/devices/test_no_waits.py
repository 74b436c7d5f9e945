"""Training, evaluation and search only launch kernels: they run on `meta`, where waiting raises."""

import pytest
import torch
from meta import (
    META,
    RECURRENT,
    ROWS,
    CopyBetweenDevices,
    launches_only,
    make_criterion,
    make_meta_model,
    make_meta_sample,
    make_meta_task,
    train_step,
)

from vaswani_plugin.models import _recurrent


@pytest.fixture
def known_lengths(monkeypatch):
    """The one place where recurrent models wait, once a batch, answered without a device."""
    calls = []

    def all_tokens_are_real(padding: torch.Tensor) -> torch.Tensor:
        calls.append(padding)
        return torch.full((padding.size(0),), padding.size(1), device="cpu")

    monkeypatch.setattr(_recurrent, "lengths_on_cpu", all_tokens_are_real)
    return calls


WAITS = {
    "item": lambda x: x.sum().item(),
    "bool": lambda x: bool(x.any()),
    "tolist": lambda x: x.tolist(),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "to the host": lambda x: x.cpu(),
    "from the host": lambda x: torch.zeros(2, device="cpu").to(x.device),
    "into it": lambda x: x.copy_(torch.zeros(2, device="cpu")),
    "mixed": lambda x: torch.nn.functional.embedding(x.long(), torch.zeros(4, 3, device="cpu")),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_what_waits_raises(wait):
    """Otherwise the tests below would prove nothing."""
    with pytest.raises((RuntimeError, NotImplementedError, CopyBetweenDevices)), launches_only():
        wait(torch.empty(2, device=META))


@pytest.mark.parametrize("name", ROWS)
def test_an_update_of_every_architecture(name, known_lengths):
    family, row = ROWS[name]
    task = make_meta_task(family)
    model = make_meta_model(family, row, task)
    loss = train_step(task, model, make_meta_sample(model))
    assert loss.device == META and loss.shape == ()
    assert len(known_lengths) == (family.model in RECURRENT)


@pytest.mark.parametrize("name", ROWS)
def test_an_evaluation_of_every_architecture(name, known_lengths):
    family, row = ROWS[name]
    task = make_meta_task(family)
    model = make_meta_model(family, row, task).eval()
    with launches_only(), torch.no_grad():
        loss, _, _ = make_criterion(task)(model, make_meta_sample(model))
    assert loss.device == META
    assert len(known_lengths) == (family.model in RECURRENT)
