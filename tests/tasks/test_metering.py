"""--log-mfu: what is counted, how it is averaged, and that it stands in the logs."""

import json
from types import SimpleNamespace

import pytest
import torch
from fairseq.logging import metrics
from fairseq_flags import training_config
from model_factory import make_model, make_task, random_batch
from search_setup import make_translation_task

from tests.conftest import RunFairseq
from vaswani_plugin.metrics.multiply_adds import TransformerSizes, training_flops
from vaswani_plugin.tasks import _metering
from vaswani_plugin.tasks._metering import Metered, batch_lengths

PAIRS = [(5, 3), (2, 7), (9, 1), (4, 4)]
PEAK = 2e9


class PlainTask:
    """What stands in fairseq's place behind `Metered`; its target dictionary is a test's."""

    def __init__(self, task: SimpleNamespace, **flags) -> None:
        self.cfg = SimpleNamespace(**{"log_mfu": True, "peak_flops": PEAK, **flags})
        self.target_dictionary = task.target_dictionary

    def build_model(self, cfg, from_checkpoint=False):
        return cfg.model

    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False):
        return torch.tensor(1.5), sample["ntokens"], {"ntokens": sample["ntokens"]}

    def reduce_metrics(self, logging_outputs, criterion):
        metrics.log_scalar("ntokens", sum(log["ntokens"] for log in logging_outputs))


class MeteredTask(Metered, PlainTask):
    """As the plugin's tasks are made."""


def make_batch(pairs: list[tuple[int, int]]) -> dict:
    inputs = random_batch(make_task(23), pairs)
    return {"net_input": inputs, "ntokens": sum(target for _, target in pairs)}


def configuration(model=None) -> SimpleNamespace:
    return SimpleNamespace(
        d_model=32, d_ff=48, encoder_layers=2, decoder_layers=3, heads=4, d_k=None, d_v=None,
        model=model,
    )  # fmt: skip


def make_metered(**flags) -> tuple[MeteredTask, torch.nn.Module]:
    task = make_task(23)
    metered = MeteredTask(task, **flags)
    return metered, metered.build_model(configuration(make_model(task)))


def step(task: MeteredTask, model: torch.nn.Module, pairs: list[tuple[int, int]]) -> dict:
    return task.train_step(make_batch(pairs), model, None, None, 0)[2]


def cost(pairs: list[tuple[int, int]]) -> int:
    """FLOPs of each sentence alone, added up."""
    sizes = TransformerSizes(32, 48, 2, 3, 4, 8, 8, len(make_task(23).target_dictionary))
    return sum(training_flops(sizes, 1, source, target) for source, target in pairs)


@pytest.mark.parametrize("left_pad", [True, False])
def test_lengths_of_a_padded_batch(left_pad: bool) -> None:
    batch = make_batch(PAIRS)
    batch["net_input"] = random_batch(make_task(23), PAIRS, left_pad=left_pad)
    found = {name: int(x) for name, x in batch_lengths(batch, 1).items()}
    assert found == {
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
    found = batch_lengths({"net_input": {"src_tokens": tokens}, "ntokens": 3}, pad=1)
    assert {name: int(x) for name, x in found.items()} == {
        "source": 0, "target": 6, "source_pairs": 0, "target_pairs": 16 + 4, "cross_pairs": 0,
        "predicted": 3, "source_padded": 0, "target_padded": 8,
    }  # fmt: skip


def test_an_interval_is_the_sum_of_its_batches() -> None:
    task, model = make_metered()
    updates = [[PAIRS, [(3, 3)]], [[(8, 2)] * 5], [PAIRS * 2]]  # the first: --update-freq 2
    with metrics.aggregate(new_root=True) as interval:
        for batches in updates:
            task.reduce_metrics([step(task, model, pairs) for pairs in batches], None)
    speed = interval["tflops"]
    # fairseq starts its clock at the end of the first update, which therefore isn't counted.
    assert speed.n == pytest.approx((cost([(8, 2)] * 5) + cost(PAIRS * 2)) / 1e12)
    speed.start -= 2.0
    expected = 100 * speed.n * 1e12 / speed.elapsed_time / PEAK
    assert interval["mfu"].fn(interval) == pytest.approx(expected, abs=0.01)
    assert expected > 0.1  # else rounding would hide all
    real, padded = 20 + 3 + 5 * 8 + 2 * 20, 4 * 9 + 3 + 5 * 8 + 8 * 9
    assert interval["source_padding"].avg == pytest.approx(100 * (1 - real / padded))
    real, padded = 15 + 3 + 5 * 2 + 2 * 15, 4 * 7 + 3 + 5 * 2 + 8 * 7
    assert interval["target_padding"].avg == pytest.approx(100 * (1 - real / padded))


def test_the_rate_is_that_of_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_metering.distributed_utils, "get_data_parallel_world_size", lambda: 4)
    task, model = make_metered()
    with metrics.aggregate(new_root=True) as interval:
        for _ in range(2):
            task.reduce_metrics([step(task, model, PAIRS)], None)
    speed = interval["tflops"]
    speed.start -= 0.1
    expected = 100 * speed.n * 1e12 / speed.elapsed_time / (4 * PEAK)
    assert interval["mfu"].fn(interval) == pytest.approx(expected, abs=0.01) and expected > 0.1


def test_the_rate_is_measured_once_in_the_models_precision(monkeypatch) -> None:
    calls = []
    monkeypatch.setattr(_metering, "matrix_rate", lambda *where: calls.append(where) or 5e9)
    task, model = make_metered(peak_flops=0.0)
    assert not calls  # generation builds models too
    for _ in range(3):
        step(task, model.bfloat16(), PAIRS)
    assert calls == [(torch.device("cpu"), torch.bfloat16)] and task._peak == 5e9


def test_nothing_is_logged_unless_asked_nor_in_validation() -> None:
    task, model = make_metered(log_mfu=False)
    assert step(task, model, PAIRS) == {"ntokens": 15}
    metered, model = make_metered()
    step(metered, model, PAIRS)
    for each in (task, metered):
        with metrics.aggregate(new_root=True) as interval:
            each.reduce_metrics([{"ntokens": 15}], None)
        assert list(interval) == ["ntokens"]


@pytest.mark.parametrize("rate", [-1.0, float("inf"), float("nan")])
def test_rates_that_are_none(rate: float) -> None:
    with pytest.raises(ValueError, match="--peak-flops .* must be FLOP/s"):
        make_metered(peak_flops=rate)


def test_a_model_whose_cost_is_unknown() -> None:
    task = make_translation_task(20)
    task.cfg.log_mfu = True
    stock = training_config("--task", "vaswani_translation", "--arch", "transformer").model
    with pytest.raises(ValueError, match="--log-mfu counts .* not of this architecture"):
        task.build_model(stock)


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
