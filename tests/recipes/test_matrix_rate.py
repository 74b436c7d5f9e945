"""The machine's matrix rate: the best of the products tried, by a clock of the test's own."""

import sys

import pytest
import torch

from tests.support.scripts import ROOT

sys.path.insert(0, str(ROOT / "recipes" / "benchmarks"))

import matrix_rate as rate  # noqa: E402

CPU = torch.device("cpu")


def test_the_best_size_and_the_best_run_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate, "SIZES", (4, 8, 16))
    calls: list[int] = []
    monkeypatch.setattr(rate, "has_onednn", lambda: True)
    monkeypatch.setattr(rate, "onednn_product", lambda a, b: a @ b.T)
    # Of each size: what five runs of two libraries take. The best is 2 * 8^3 / 1e-4.
    clock = {4: [2e-4] * 10, 8: [9e-4, 7e-4, 5e-4, 1e-4] + [8e-4] * 6, 16: [3e-3] * 10}

    def seconds(product, x: torch.Tensor) -> float:
        torch.testing.assert_close(product(x), x @ x.T)
        calls.append(len(x))
        return clock[len(x)].pop(0)

    monkeypatch.setattr(rate, "_seconds", seconds)
    assert rate.matrix_rate(CPU, torch.float32) == pytest.approx(2 * 8**3 / 1e-4)
    assert calls == [4] * 10 + [8] * 10 + [16] * 10


def test_no_larger_size_once_a_product_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate, "SIZES", (4, 8))
    monkeypatch.setattr(rate, "_seconds", lambda product, x: 1.0 if len(x) == 4 else 1e-9)
    assert rate.matrix_rate(CPU, torch.float32) == 2 * 4**3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_that_of_a_product_timed_here(monkeypatch: pytest.MonkeyPatch, dtype) -> None:
    monkeypatch.setattr(rate, "SIZES", (256,))
    x = torch.randn(256, 256).to(dtype)
    plain = min(rate._seconds(lambda rows: rows @ rows.T, x) for _ in range(10))
    found = rate.matrix_rate(CPU, dtype)
    # Another program may take the processor in between; an order of magnitude it does not.
    assert found > 0.1 * 2 * 256**3 / plain
    assert found < 1e14  # no processor does


def test_the_clock_waits_for_any_device_but_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda each: waited.append(each.type))
    for device, count in (("cpu", 0), ("meta", 2)):
        rate._seconds(lambda rows: rows @ rows.T, torch.empty(2, 2, device=device))
        assert waited == [device] * count
