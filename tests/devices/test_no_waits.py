"""Training, evaluation and search only launch kernels: they run on `meta`, where waiting raises."""

import re

import meta
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.conftest import REPO
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


class Counted(TorchDispatchMode):
    """Counts the functions that compute: each is a kernel or more on a GPU."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        aliases = [returned.alias_info for returned in function._schema.returns]
        is_view = all(alias and not alias.is_write for alias in aliases)
        self.count += not (is_view or re.search("unsafe_view|empty", function.name()))
        return function(*args, **kwargs or {})


def test_the_functions_of_an_update():
    """docs/how-to/gpu.md says how many base's forward and backward pass call."""
    family, row = meta.ROWS["vaswani_base"]
    task = meta.make_meta_task(family)
    model = meta.make_meta_model(family, row, task).train()
    with Counted() as counted, meta.launches_only():
        loss, _, _ = meta.make_criterion(task)(model, meta.make_meta_sample(model))
        forward = counted.count
        loss.backward()
    page = (REPO / "docs" / "how-to" / "gpu.md").read_text(encoding="utf-8")
    assert f"{forward:,} of PyTorch's functions, backward {counted.count - forward:,}" in page
