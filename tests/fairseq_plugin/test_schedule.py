"""Eq. 3, and the rate of Sutskever et al. (2014): formulas, schedulers, resuming."""

from fractions import Fraction

import paper_reference
import pytest
import torch
from omegaconf import OmegaConf

from tests.conftest import STOCK_TINY
from vaswani_plugin.fairseq_plugin.optimizer import HalvingSchedule, VaswaniAdam, VaswaniSchedule
from vaswani_plugin.modules.schedule import learning_rate


@pytest.mark.parametrize(("d_model", "warmup"), [(512, 4000), (128, 1), (1024, 10_000)])
def test_equation_3(d_model, warmup):
    for step in range(1, 10_001):
        expected = paper_reference.learning_rate(step, d_model, warmup)
        assert abs(learning_rate(step, d_model, warmup) - expected) < 1e-10 * expected


def test_factor_no_warm_up_and_step_0():
    assert learning_rate(7, 512, 4000, 2.5) == pytest.approx(2.5 * learning_rate(7, 512, 4000))
    assert learning_rate(1, 256, 0) == pytest.approx(1 / 16)
    assert learning_rate(0, 512, 4000) == learning_rate(1, 512, 4000)


def make_optimizer() -> VaswaniAdam:
    cfg = {"adam_betas": "(0.9, 0.98)", "adam_eps": 1e-9, "weight_decay": 0, "lr": [9.0]}
    parameters = [{"params": [torch.nn.Parameter(torch.zeros(2))]} for _ in range(2)]
    return VaswaniAdam(OmegaConf.create(cfg), parameters)


def make_schedule(**changes) -> VaswaniSchedule:
    settings = {"warmup_updates": 40, "lr_factor": 1.5, "d_model": 64, "_name": "vaswani"}
    return VaswaniSchedule(OmegaConf.create(settings | changes), make_optimizer())


def rate_of(schedule: VaswaniSchedule) -> float:
    rates = {group["lr"] for group in schedule.optimizer.param_groups}
    assert len(rates) == 1
    return rates.pop()


def test_update_k_uses_rate_k():
    """fairseq calls step_update(k - 1) before update k, and step_update(0) at the start."""
    schedule = make_schedule()
    used = [rate_of(schedule)]
    for finished in range(1, 100):
        assert schedule.step_update(finished) == rate_of(schedule)
        schedule.step(finished // 10, 3.0)  # the end of an epoch changes nothing
        used.append(rate_of(schedule))
    for update, rate in enumerate(used, start=1):
        assert rate == pytest.approx(1.5 * paper_reference.learning_rate(update, 64, 40))


def test_a_model_without_width_gets_the_bases_and_a_warning(run_fairseq, toy_data_bin):
    flags = (*STOCK_TINY, "--lr-scheduler", "vaswani", "--max-update", 1, "--no-save")
    log = run_fairseq("train", toy_data_bin, *flags).stdout
    assert "the model has no d_model; Eq. 3 takes 512" in log
    rate = float(log.split("| lr ")[1].split()[0])
    assert rate == pytest.approx(paper_reference.learning_rate(2, 512, 4000), rel=1e-4)


def make_halving(**changes) -> HalvingSchedule:
    settings = {"lr": [0.7], "constant_epochs": 5.0, "halving_epochs": 0.5}
    return HalvingSchedule(OmegaConf.create(settings | changes), make_optimizer())


def train(schedule: HalvingSchedule, epochs: int, updates: int, first: int = 1) -> list[float]:
    """Calls the schedule as fairseq's trainer does; returns the rate of each update."""
    rates, done = [], (first - 1) * updates
    for epoch in range(first, epochs + 1):
        schedule.step_begin_epoch(epoch)
        schedule.step_update(done)
        for _ in range(updates):
            rates.append(rate_of(schedule))
            done += 1
            assert schedule.step_update(done) == rate_of(schedule)
        schedule.step(epoch, 1.0)
    return rates


def expected_rate(update: int, updates: int, constant: Fraction, interval: Fraction) -> float:
    """By exact fractions: half as much at each boundary that has been reached."""
    rate, boundary = 0.7, constant
    while Fraction(update, updates) >= boundary:
        rate, boundary = rate / 2, boundary + interval
    return rate


@pytest.mark.parametrize(
    ("updates", "constant", "interval"), [(113, "5", "1/2"), (7, "12/5", "6/5"), (10, "1", "1/10")]
)
def test_every_update_has_the_rate_of_its_place_in_the_epochs(updates, constant, interval):
    constant, interval = Fraction(constant), Fraction(interval)
    schedule = make_halving(constant_epochs=float(constant), halving_epochs=float(interval))
    for update, rate in enumerate(train(schedule, 8, updates)):
        assert rate == pytest.approx(expected_rate(update, updates, constant, interval)), update


@pytest.mark.parametrize("stop", [537, 600])
def test_a_resumed_halving_goes_on_exactly(stop):
    """Within an epoch and at its end; fairseq restores the state, then the number of updates."""
    expected = train(make_halving(), 8, 100)
    first, epoch = make_halving(), stop // 100 + 1
    train(first, epoch - 1, 100)
    if stop % 100:
        first.step_begin_epoch(epoch)
        first.step_update(stop)
    resumed = make_halving()
    resumed.load_state_dict(first.state_dict())
    resumed.step_update(stop)
    resumed.step_begin_epoch(epoch)
    rates = [resumed.step_update(k) for k in range(stop, epoch * 100)]
    assert rates == expected[stop : epoch * 100]
    resumed.step_update(epoch * 100)
    resumed.step_begin_epoch(1)  # as after --reset-dataloader
    assert resumed.step_update(epoch * 100) == 0.7
    assert train(resumed, 8, 100, first=epoch + 1) == expected[epoch * 100 :]


def test_an_epoch_with_more_updates_than_the_others_is_one_epoch():
    schedule = make_halving(constant_epochs=2.0)
    for update in range(1, 101):
        schedule.step_update(update)
    schedule.step_begin_epoch(2)
    assert [schedule.step_update(update) for update in range(101, 260)] == [0.7] * 99 + [0.35] * 60
