"""Gradients in memory of their own are the gradients that they would be elsewhere."""

import copy
import mmap
from pathlib import Path

import pytest
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from vaswani_plugin.compat.memory import resident_memory
from vaswani_plugin.optim import gradients
from vaswani_plugin.optim.adam import VaswaniAdam, VaswaniAdamConfig


@pytest.fixture(autouse=True)
def small_enough_for_a_test(monkeypatch):
    monkeypatch.setattr(gradients, "SMALLEST", 30)


def make_model() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.Linear(3, 3, bias=False))


def add_gradients(model: nn.Module, seed: int) -> None:
    torch.manual_seed(seed)
    model(torch.randn(4, 5)).square().sum().backward()


def places(model: nn.Module) -> list[int | None]:
    return [p.grad if p.grad is None else p.grad.data_ptr() for p in model.parameters()]


def optimizer_of(model: nn.Module) -> VaswaniAdam:
    return VaswaniAdam(VaswaniAdamConfig(lr=[0.1]), list(model.parameters()))


def test_training_is_the_same_and_gradients_have_pages_of_their_own(monkeypatch):
    kept, plain = make_model(), make_model()
    mine = optimizer_of(kept)
    monkeypatch.setattr(gradients, "SMALLEST", 1 << 20)
    other = optimizer_of(plain)
    for update in range(3):
        for model, optimizer in ((kept, mine), (plain, other)):
            optimizer.zero_grad()
            assert places(model) == [None] * 5
            for part in range(2):  # --update-freq 2
                add_gradients(model, 10 * update + part)
            optimizer.step()
        for own, expected in zip(kept.parameters(), plain.parameters(), strict=True):
            assert own.grad.equal(expected.grad) and own.equal(expected)
        matrices = places(kept)[::2]
        assert all(place % mmap.PAGESIZE == 0 for place in matrices)


def test_who_gets_memory(monkeypatch):
    model = make_model()
    monkeypatch.setattr(gradients, "LARGEST", 100)
    model[3].weight.requires_grad_(False)
    gradients.keep_gradients_apart(model.parameters())
    hooked = [bool(p._post_accumulate_grad_hooks) for p in model.parameters()]
    # 140, 28, 84, 12 and 36 bytes; the last matrix is not learned
    assert hooked == [False, False, True, False, False]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux")
def test_their_pages_go_back_between_updates():
    model, size = nn.Linear(1500, 1000, bias=False), 6_000_000
    optimizer = optimizer_of(model)
    model(torch.ones(1, 1500)).sum().backward()
    before = resident_memory()
    optimizer.zero_grad()
    assert 0.9 * size < before - resident_memory() < 1.5 * size


def test_they_grow_where_they_are():
    """With --update-freq they are not moved again."""
    model = make_model()
    gradients.keep_gradients_apart(model.parameters())
    add_gradients(model, 1)
    before = [p.grad for p in model.parameters()]
    add_gradients(model, 2)
    assert all(p.grad is old for p, old in zip(model.parameters(), before, strict=True))


def test_sparse_ones_are_left_alone():
    embedding = nn.Embedding(20, 3, sparse=True)
    gradients.keep_gradients_apart(embedding.parameters())
    for _ in range(2):
        embedding(torch.tensor([3, 4])).sum().backward()
    assert embedding.weight.grad.is_sparse
    assert embedding.weight.grad.to_dense().sum() == 12


def test_without_a_gradient_nothing_is_learned():
    model = make_model()
    optimizer = optimizer_of(model)
    add_gradients(model, 1)
    optimizer.step()
    optimizer.zero_grad()
    before = copy.deepcopy(model.state_dict())
    model[0](torch.ones(1, 5)).sum().backward()  # the layers behind it have no part in this
    optimizer.step()
    changed = [not tensor.equal(before[name]) for name, tensor in model.state_dict().items()]
    assert changed == [True, True, False, False, False]


def test_workers_reduce_them(tmp_path):
    distributed.init_process_group("gloo", f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        model, plain = make_model(), make_model()
        gradients.keep_gradients_apart(model.parameters())
        workers = DistributedDataParallel(model)
        workers.register_comm_hook(None, _doubled)  # as if there were another worker
        for seed in (1, 2):
            for p in (*model.parameters(), *plain.parameters()):
                p.grad = None
            add_gradients(workers, seed)
            add_gradients(plain, seed)
            for own, expected in zip(model.parameters(), plain.parameters(), strict=True):
                torch.testing.assert_close(own.grad, 2 * expected.grad)
    finally:
        distributed.destroy_process_group()


def _doubled(state: None, bucket: distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
    future = torch.futures.Future()
    future.set_result(2 * bucket.buffer())
    return future
