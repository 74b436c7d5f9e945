"""--log-mfu: what is counted, how it is averaged, and that it stands in the logs."""

import json
from types import SimpleNamespace

import pytest
import torch
from fairseq.logging import meters, metrics
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq_flags import training_config
from model_factory import make_model, make_task, random_batch
from search_setup import make_translation_task

from tests.conftest import RunFairseq
from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.training import metering
from vaswani_plugin.fairseq_plugin.training.metering import LENGTHS, Metering, batch_lengths
from vaswani_plugin.metrics.multiply_adds import TransformerSizes, training_flops

PAIRS = [(5, 3), (2, 7), (9, 1), (4, 4)]
PEAK = 2e9


def make_batch(pairs: list[tuple[int, int]]) -> dict:
    inputs = random_batch(make_task(23), pairs)
    return {"net_input": inputs, "ntokens": sum(target for _, target in pairs)}


def configuration(model=None) -> SimpleNamespace:
    return SimpleNamespace(
        d_model=32, d_ff=48, encoder_layers=2, decoder_layers=3, heads=4, d_k=None, d_v=None,
        model=model,
    )  # fmt: skip


def make_metering(**flags) -> Metering | None:
    task = SimpleNamespace(log_mfu=True, peak_flops=PEAK)
    cfg = SimpleNamespace(model=configuration(), task=SimpleNamespace(**{**vars(task), **flags}))
    return Metering.of_task(cfg, make_task(23))


def make_trainer(dtype=torch.float32, workers: int = 1) -> SimpleNamespace:
    """What metering asks of a trainer."""
    model = make_model(make_task(23)).to(dtype)
    return SimpleNamespace(
        get_model=lambda: model,
        optimizer=None,
        device=torch.device("cpu"),
        data_parallel_world_size=workers,
        data_parallel_process_group="group",
    )


def cost(pairs: list[tuple[int, int]]) -> int:
    """FLOPs of each sentence alone, added up."""
    sizes = TransformerSizes(32, 48, 2, 3, 4, 8, 8, len(make_task(23).target_dictionary))
    return sum(training_flops(sizes, 1, source, target) for source, target in pairs)


def lengths_of(batch: dict) -> dict[str, int]:
    return dict(zip(LENGTHS, batch_lengths(batch, pad=1).int().tolist(), strict=True))


@pytest.mark.parametrize("left_pad", [True, False])
def test_lengths_of_a_padded_batch(left_pad: bool) -> None:
    batch = make_batch(PAIRS)
    batch["net_input"] = random_batch(make_task(23), PAIRS, left_pad=left_pad)
    assert lengths_of(batch) == {
        "source": 5 + 2 + 9 + 4,
        "target": 3 + 7 + 1 + 4,
        "source_pairs": 25 + 4 + 81 + 16,
        "target_pairs": 9 + 49 + 1 + 16,
        "cross_pairs": 15 + 14 + 9 + 16,
        "predicted": 15,
        "source_padded": 4 * 9,
        "target_padded": 4 * 7,
    }


def test_lengths_of_a_text_of_which_a_part_is_learned() -> None:
    tokens = torch.tensor([[5, 6, 7, 8], [9, 5, 1, 1]])
    assert lengths_of({"net_input": {"src_tokens": tokens}, "ntokens": 3}) == {
        "source": 0, "target": 6, "source_pairs": 0, "target_pairs": 16 + 4, "cross_pairs": 0,
        "predicted": 3, "source_padded": 0, "target_padded": 8,
    }  # fmt: skip


def stop_clock(monkeypatch: pytest.MonkeyPatch, now: float) -> None:
    """Lets fairseq's meters read this time only."""
    monkeypatch.setattr(meters, "time", SimpleNamespace(perf_counter=lambda: now))


def test_an_interval_is_the_sum_of_its_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    metered, trainer = make_metering(), make_trainer()
    # the first: --update-freq 3, of which one batch is empty, as at the end of an epoch
    updates = [[make_batch(PAIRS), make_batch([(3, 3)]), {}], [make_batch([(8, 2)] * 5)]]
    updates += [[make_batch(PAIRS * 2), None]]
    with metrics.aggregate(new_root=True) as interval:
        for batches in updates:
            metered.log(batches, trainer)
    speed = interval["tflops"]
    # fairseq starts its clock at the end of the first update, which therefore isn't counted.
    assert speed.n == pytest.approx((cost([(8, 2)] * 5) + cost(PAIRS * 2)) / 1e12)
    stop_clock(monkeypatch, speed.start + 2.0)
    expected = 100 * speed.n * 1e12 / speed.elapsed_time / PEAK
    assert interval["mfu"].fn(interval) == pytest.approx(expected, abs=0.01)
    assert expected > 0.1  # else rounding would hide all
    real, padded = 20 + 3 + 5 * 8 + 2 * 20, 4 * 9 + 3 + 5 * 8 + 8 * 9
    assert interval["source_padding"].avg == pytest.approx(100 * (1 - real / padded))
    real, padded = 15 + 3 + 5 * 2 + 2 * 15, 4 * 7 + 3 + 5 * 2 + 8 * 7
    assert interval["target_padding"].avg == pytest.approx(100 * (1 - real / padded))


def test_the_batches_and_rates_of_all_workers_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    summed = []
    monkeypatch.setattr(
        metering.distributed_utils, "all_reduce", lambda x, group: summed.append(group) or 4 * x
    )
    metered, trainer = make_metering(), make_trainer(workers=4)
    with metrics.aggregate(new_root=True) as interval:
        for batches in ([make_batch(PAIRS)], []):
            metered.log(batches, trainer)
            metered.log([make_batch(PAIRS)], trainer)
    assert summed == ["group"] * 4  # a worker without a batch takes part
    speed = interval["tflops"]
    assert speed.n == pytest.approx(2 * 4 * cost(PAIRS) / 1e12)
    stop_clock(monkeypatch, speed.start + 0.1)
    expected = 100 * speed.n * 1e12 / speed.elapsed_time / (4 * PEAK)
    assert interval["mfu"].fn(interval) == pytest.approx(expected, abs=0.01) and expected > 0.1


def test_the_rate_is_measured_once_in_the_models_precision(monkeypatch) -> None:
    calls = []
    monkeypatch.setattr(metering, "matrix_rate", lambda *where: calls.append(where) or 5e9)
    metered, trainer = make_metering(peak_flops=0.0), make_trainer(torch.bfloat16)
    assert not calls
    for _ in range(3):
        metered.log([make_batch(PAIRS)], trainer)
    assert calls == [(torch.device("cpu"), torch.bfloat16)] and metered.peak == 5e9


@pytest.mark.parametrize(
    ("device", "amp", "expected"),
    [
        ("cpu", True, torch.bfloat16),  # tasks/_precision.py
        ("cpu", False, torch.float32),
        ("cuda", True, torch.float16),  # fairseq's own
        ("cuda", False, torch.float32),
    ],
)
def test_under_amp_the_rate_is_that_of_its_products(monkeypatch, device, amp, expected) -> None:
    calls = []
    monkeypatch.setattr(metering, "matrix_rate", lambda *where: calls.append(where) or 5e9)
    weight = SimpleNamespace(device=torch.device(device), dtype=torch.float32)
    model = SimpleNamespace(parameters=lambda: iter([weight]))
    optimizer = AMPOptimizer.__new__(AMPOptimizer) if amp else None
    trainer = SimpleNamespace(get_model=lambda: model, optimizer=optimizer)
    assert metering._measured_rate(trainer) == 5e9
    assert calls == [(torch.device(device), expected)]


def test_nothing_is_metered_unless_asked() -> None:
    assert make_metering(log_mfu=False) is None
    assert Metering.of_task(SimpleNamespace(task=SimpleNamespace()), None) is None
    assert Metering.of_task(SimpleNamespace(), None) is None


@pytest.mark.parametrize("rate", [-1.0, float("inf"), float("nan")])
def test_rates_that_are_none(rate: float) -> None:
    with pytest.raises(UserError, match="--peak-flops .* must be FLOP/s"):
        make_metering(peak_flops=rate)


def test_a_model_whose_cost_is_unknown() -> None:
    cfg = training_config("--task", "vaswani_translation", "--arch", "transformer", "--log-mfu")
    with pytest.raises(UserError, match="--log-mfu counts .* not of this architecture"):
        Metering.of_task(cfg, make_translation_task(20))


def test_it_stands_in_the_log_and_in_tensorboard(
    toy_data_bin, run_fairseq: RunFairseq, tmp_path
) -> None:
    run = run_fairseq(
        "train", toy_data_bin, "--task", "vaswani_translation", "--arch", "vaswani_debug",
        "--max-tokens", 100, "--max-update", 4, "--update-freq", 2, "--cpu", "--no-save",
        "--num-workers", 0, "--log-format", "json", "--log-interval", 2, "--no-progress-bar",
        "--log-mfu", "--peak-flops", "1e10", "--tensorboard-logdir", tmp_path / "board",
        "--save-dir", tmp_path / "checkpoints",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    output = run.stderr + run.stdout
    intervals = [line.split("| train_inner | ") for line in output.split("\n")]
    intervals = [json.loads(parts[1]) for parts in intervals if len(parts) == 2]
    assert len(intervals) == 2
    names = {"wps", "tflops", "mfu", "source_padding", "target_padding"}
    last = {name: float(intervals[-1][name]) for name in names}
    assert last["tflops"] > 0 and 0 <= last["source_padding"] < 100
    assert last["mfu"] == pytest.approx(100 * last["tflops"] * 1e12 / 1e10, rel=0.1)
    events = b"".join(path.read_bytes() for path in tmp_path.rglob("events*"))
    assert all(name.encode() in events for name in names)
    assert "valid" in output and "valid_mfu" not in output
