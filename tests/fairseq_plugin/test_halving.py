"""The rate of Sutskever et al. (2014): constant for five epochs, then halved every half epoch."""

from fractions import Fraction

import pytest
import torch
from omegaconf import OmegaConf

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.adam import VaswaniAdam
from vaswani_plugin.fairseq_plugin.halving import HalvingSchedule, HalvingScheduleConfig


def make_schedule(**changes) -> HalvingSchedule:
    settings = {"adam_betas": "(0.9, 0.98)", "adam_eps": 1e-9, "weight_decay": 0, "lr": [9.0]}
    parameters = [{"params": [torch.nn.Parameter(torch.zeros(2))]}]
    optimizer = VaswaniAdam(OmegaConf.create(settings), parameters)
    cfg = {"lr": [0.7], "constant_epochs": 5.0, "halving_epochs": 0.5} | changes
    return HalvingSchedule(OmegaConf.create(cfg), optimizer)


def train(schedule: HalvingSchedule, epochs: int, updates: int, first: int = 1) -> list[float]:
    """Calls the schedule as fairseq's trainer does; returns the rate of each update."""
    rates, done = [], (first - 1) * updates
    for epoch in range(first, epochs + 1):
        schedule.step_begin_epoch(epoch)
        schedule.step_update(done)
        for _ in range(updates):
            (group,) = schedule.optimizer.param_groups
            rates.append(group["lr"])
            done += 1
            assert schedule.step_update(done) == group["lr"]
        schedule.step(epoch, 1.0)
    return rates


def expected_rate(update: int, updates: int, constant: Fraction, interval: Fraction) -> float:
    """By exact fractions: half as much at each boundary that has been reached."""
    rate, boundary = 0.7, constant
    while Fraction(update, updates) >= boundary:
        rate, boundary = rate / 2, boundary + interval
    return rate


@pytest.mark.parametrize("updates", [10, 7, 113])
@pytest.mark.parametrize(("constant", "interval"), [("5", "1/2"), ("12/5", "6/5"), ("1", "1/10")])
def test_every_update_has_the_rate_of_its_place_in_the_epochs(updates, constant, interval):
    constant, interval = Fraction(constant), Fraction(interval)
    schedule = make_schedule(constant_epochs=float(constant), halving_epochs=float(interval))
    for update, rate in enumerate(train(schedule, 8, updates)):
        assert rate == pytest.approx(expected_rate(update, updates, constant, interval)), update


def test_the_published_schedule():
    """0.7 for 5 epochs, then 0.35, 0.175 ... for half an epoch each; the last is 0.7 / 32."""
    rates = train(make_schedule(), 8, 100)[:750]
    assert rates[:500] == [0.7] * 500
    assert rates[500:] == [0.7 / 2**k for k in range(1, 6) for _ in range(50)]


@pytest.mark.parametrize("stop", [250, 537, 600, 601, 650])
def test_a_resumed_schedule_goes_on_exactly(stop):
    """Within an epoch and at its end; fairseq restores the state, then the number of updates."""
    expected = train(make_schedule(), 8, 100)
    first, epoch = make_schedule(), stop // 100 + 1
    train(first, epoch - 1, 100)
    if stop % 100:
        first.step_begin_epoch(epoch)
        first.step_update(stop)
    resumed = make_schedule()
    resumed.load_state_dict(first.state_dict())
    resumed.step_update(stop)
    resumed.step_begin_epoch(epoch)
    rates = [resumed.step_update(k) for k in range(stop, epoch * 100)]
    assert rates == expected[stop : epoch * 100]
    resumed.step_update(epoch * 100)
    rest = train(resumed, 8, 100, first=epoch + 1)
    assert rest == expected[epoch * 100 :]


@pytest.mark.parametrize("state", [{"best": None}, {"lr": 0.1}], ids=["vaswani", "fixed"])
def test_the_state_of_another_schedule_is_refused(state):
    with pytest.raises(UserError, match="another --lr-scheduler: give the same one, or"):
        make_schedule().load_state_dict(state)


@pytest.mark.parametrize("bad", [0.0, float("nan")])
def test_bad_settings_are_refused_at_start(bad):
    with pytest.raises(UserError, match=f"--constant-epochs is {bad}; it must be at least 1"):
        make_schedule(constant_epochs=bad)
    with pytest.raises(UserError, match=f"--halving-epochs is {bad}; it must be above 0"):
        make_schedule(halving_epochs=bad)


def test_defaults_are_the_papers():
    cfg = HalvingScheduleConfig()
    assert (cfg.constant_epochs, cfg.halving_epochs) == (5.0, 0.5)
