"""recipes/benchmarks/gpu.sh: a rehearsal on the CPU, its arithmetic, and parts that fail."""

import argparse
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.conftest import REPO
from tests.support.scripts import assert_one_line_error, run_bash

sys.path.insert(0, str(REPO / "recipes" / "benchmarks"))

import gpu  # noqa: E402
import gpu_report  # noqa: E402
import train_once  # noqa: E402

from vaswani_plugin.errors import UserError  # noqa: E402

SCRIPT = REPO / "recipes" / "benchmarks" / "gpu.sh"
SIDE = {"tokens_per_second": {"median": 1000.0}, "peak_mib": {"median": 2000.0}}


@pytest.fixture
def args(tmp_path) -> argparse.Namespace:
    """The options of a rehearsal."""
    given = ["--device", "cpu", "--work", str(tmp_path / "work")]
    return gpu.complete(gpu.options().parse_args(given))


@pytest.mark.slow
def test_a_rehearsal_runs_every_part(tmp_path):
    done = run_bash(SCRIPT, "--device", "cpu", "--work", tmp_path, timeout=1500)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "gpu-report.json").read_text(encoding="utf-8"))
    assert list(report["parts"]) == list(gpu.PARTS)
    training = report["parts"]["training"]["result"]["sizes"]["debug"]
    assert training["ours"]["flops_per_second"] > 0 and 0 < training["ours"]["idle_share"] < 1
    decoding = report["parts"]["decoding"]["result"]
    assert "stock" in decoding["batch"] and list(decoding["searches"]) == ["1", str(gpu.BATCH)]
    assert all(0 < row["idle_share"] < 1 < row["speed"] for row in decoding["searches"].values())
    assert "skipped" in report["parts"]["tests"]["result"]["said"]
    assert (tmp_path / "gpu-report.md").read_text(encoding="utf-8").strip() in done.stdout


def test_a_part_that_fails_is_reported_and_the_others_run(args):
    def broken(args):
        raise UserError("exit code 1, see its log")

    def worse(args):
        raise ZeroDivisionError

    tests = {"said": "3 passed", "skipped": ["SKIPPED [1] two GPUs"]}
    parts = {"training": broken, "decoding": worse, "tests": lambda args: tests}
    report = gpu.run_parts(args, parts)
    assert [list(part) for part in report["parts"].values()] == [["failed"], ["failed"], ["result"]]
    assert json.loads((args.work / "gpu-report.json").read_text(encoding="utf-8")) == report
    text = (args.work / "gpu-report.md").read_text(encoding="utf-8")
    assert "**Failed**: exit code 1, see its log" in text and "**Failed**: ZeroDivision" in text
    assert "3 passed\n- SKIPPED [1] two GPUs" in text


def test_a_command_that_fails_or_hangs_ends_the_part(tmp_path):
    log = tmp_path / "log"
    with pytest.raises(UserError, match="exit code 3, see .*log: no such thing"):
        gpu.call(["bash", "-c", "echo no such thing >&2; exit 3"], 30, log)
    with pytest.raises(UserError, match="took more than 0.2 s; see .*log"):
        gpu.call(["sleep", "30"], 0.2, log)
    assert gpu.call(["echo", "x"], 30, log) == "x\n"


def test_the_report_says_what_was_measured():
    each = {
        "stock": {**SIDE, "mfu_percent": 12.345},
        "ours": {**SIDE, "mfu_percent": None, "idle_share": 0.031},
        "percent_of_floor_reached": {"stock": 20.0, "ours": 40.0},
        "ours_over_stock": {"tokens_per_second": 1.6, "peak_mib": 0.55},
    }
    settings = {"precision": "bf16", "max_tokens": 25_000, "vocabulary": 37_000, "updates": 20}
    settings |= {"repetitions": 1}
    machine = {"name": "NVIDIA H200", "gib": 139.8, "torch": "2", "fairseq-fixed": "0", "python": 3}
    parts = {"training": {"result": {"sizes": {"big": each}}}}
    text = gpu_report.as_markdown({"machine": machine, "settings": settings, "parts": parts})
    assert text.startswith("# NVIDIA H200, 139.8 GiB\n")
    assert "| big | stock | 1,000 | 2,000 | 12.3% | 20.0% | not measured |" in text
    assert "| big | ours | 1,000 | 2,000 | not known | 40.0% | 3.1% |" in text
    assert "| big | ours / stock | 1.6 | 0.55 | | | |" in text


def test_the_report_says_how_long_the_device_idles_in_a_search():
    rows = {"stock": {"wall_seconds": 40.0, "search_seconds": 30.0, "search_times_stock": 1.0}}
    searches = {1: {"speed": 9.87, "idle_share": 0.9}, 64: {"speed": 765.4, "idle_share": 0.25}}
    found = {"beam": 4, "sentences": 2000, "batch": rows, "searches": searches}
    machine = {"name": "NVIDIA H200", "torch": "2", "fairseq-fixed": "0", "python": 3}
    parts = {"decoding": {"result": found}}
    text = gpu_report.as_markdown(
        {"machine": machine, "settings": {"decode_size": "base"}, "parts": parts}
    )
    assert "| stock | 40.0 | 30.00 | 1.00 |" in text
    assert "| 1 | 9.9 | 90.0% |\n| 64 | 765.4 | 25.0% |" in text


@pytest.fixture
def a_gpu(monkeypatch):
    """PyTorch says that there is a GPU, to the lines that only ask for it."""
    properties = SimpleNamespace(name="NVIDIA H200", total_memory=150_000_000_000)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: properties)


@pytest.mark.parametrize(("total", "tokens"), [(150e9, 25_000), (24e9, 4096)])
def test_what_a_gpu_is_asked_to_do(a_gpu, total, tokens, tmp_path, monkeypatch):
    """The commands for a GPU, with the numbers that they would find."""
    torch.cuda.get_device_properties(0).total_memory = total
    args = gpu.complete(gpu.options().parse_args(["--work", str(tmp_path)]))
    assert args.max_tokens == tokens and args.peak_flops == 989e12 and args.sizes == ["base", "big"]
    assert gpu_report.machine("gpu")["gib"] == round(total / 2**30, 1)
    commands, profiled = [], []
    outputs = {"decode_once.py": '{"speed": 2.0, "idle_share": 0.5}\n'}
    sides = {side: SIDE for side in gpu.SIDES}
    size = {**sides, "floor": {"matrix_flops_per_second": 500e12}}
    size["percent_of_floor_reached"] = dict.fromkeys(gpu.SIDES, 40.0)
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "training.json").write_text(
        json.dumps({"threads": 1, "sizes": {"base": size, "big": size}}), encoding="utf-8"
    )

    def called(command, seconds, log):
        commands.append([str(word) for word in command])
        if "generation.py" in commands[-1][1]:
            folder = Path(commands[-1][commands[-1].index("--work") + 1])
            folder.mkdir(parents=True)
            wall = 1.0 + int(commands[-1][commands[-1].index("--sentences") + 1])
            result = {"batch": {"stock": {"wall_seconds": wall}}}
            (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
        return outputs.get(Path(commands[-1][1]).name, "SKIPPED two GPUs\n3 passed\n")

    def trained(*given, idle):
        profiled.append((given[3], given[4].gpu, given[4].precision, idle))
        return {"idle_share": 0.1}

    monkeypatch.setattr(gpu, "call", called)
    monkeypatch.setattr(gpu, "run_training", trained)
    monkeypatch.setattr(gpu, "synthetic_data", lambda folder, rows: tmp_path)
    monkeypatch.setattr(gpu, "sentences_to_decode", lambda *given: tmp_path)
    found = gpu.training(args)
    assert found["sizes"]["big"]["ours"]["mfu_percent"] == pytest.approx(100 * 200 / 989)
    assert profiled == [("base", True, "bf16", True), ("big", True, "bf16", True)]
    decoded = gpu.decoding(args)
    assert decoded["searches"][64] == {"speed": 2.0, "idle_share": 0.5}
    assert gpu.gpu_tests(args) == {"said": "3 passed", "skipped": ["SKIPPED two GPUs"]}
    training, train, few, many, one, batch, tests = commands
    assert training[training.index("--device") + 1] == "gpu" and "--cpu" not in train
    assert all("--gpu" in command for command in (few, many, one, batch)) and "gpu" in tests


def test_the_search_is_what_takes_longer_than_few_sentences():
    def found(**seconds: float) -> dict:
        return {"batch": {engine: {"wall_seconds": s} for engine, s in seconds.items()}}

    result = gpu.with_search_seconds(
        found(stock=40.0, ours=20.0, fast=9.0), found(stock=10.0, ours=10.0, fast=9.5)
    )["batch"]
    assert [row["search_seconds"] for row in result.values()] == [30.0, 10.0, None]
    assert [row["search_times_stock"] for row in result.values()] == [1.0, 3.0, None]


@pytest.mark.parametrize(
    ("name", "tera"),
    [("NVIDIA H200", 989), ("NVIDIA H100 PCIe", 756), ("NVIDIA A100-SXM4-80GB", 312), ("Foo", 0)],
)
def test_printed_peaks(name, tera):
    assert gpu_report.printed_peak({"name": name}) == tera * 1e12


def test_idle_time_is_what_no_interval_covers():
    assert train_once.union([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (1.5, 1.6)]) == 4.0
    assert train_once.union([]) == 0.0


@pytest.mark.parametrize("count", ["8", "12"])
def test_sentences_that_stock_would_leave_out_are_refused(count, tmp_path):
    flags = ["--device", "cpu", "--sentences", count, "--work", tmp_path]
    assert_one_line_error(run_bash(SCRIPT, *flags), f"--sentences {count}: must be a multiple of 8")


def test_without_a_gpu_it_says_so(tmp_path):
    done = run_bash(SCRIPT, "--work", Path(tmp_path), CUDA_VISIBLE_DEVICES="")
    assert_one_line_error(done, "PyTorch finds no GPU", "--device cpu rehearses")
