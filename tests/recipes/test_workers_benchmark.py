"""recipes/benchmarks/workers: its arithmetic, a tiny run, and bad flags."""

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import REPO

sys.path.insert(0, str(REPO / "recipes" / "benchmarks"))

import workers  # noqa: E402

from vaswani_plugin.errors import UserError  # noqa: E402


def report(*updates: tuple[int, float, float]) -> dict:
    """Of one worker: target tokens, seconds of waiting and of work of each update."""
    names = ("target", "wait", "seconds")
    return {"updates": [dict(zip(names, update, strict=True)) for update in updates]}


def test_the_tokens_of_all_by_the_clock_of_the_slowest() -> None:
    quick = report((1000, 9.0, 9.0), (30, 0.5, 1.5), (20, 0.5, 1.5))
    slow = report((1000, 9.0, 9.0), (10, 1.0, 1.5), (40, 1.0, 1.5))
    assert workers.tokens_per_second([quick], warm_up=1) == 50 / 4
    assert workers.tokens_per_second([quick, slow], warm_up=1) == 100 / 5


def test_both_sides_make_the_same_updates_of_the_same_batches(tmp_path, monkeypatch) -> None:
    asked = []

    def run_together(log, size, setting, count, update_freq):
        asked.append((count, setting.threads, update_freq))
        return [report((9, 0, 1.0), (count * 30, 0, 1.0))] * count

    monkeypatch.setattr(workers, "run_together", run_together)
    monkeypatch.setattr(workers, "check", lambda *_: None)
    flags = ["--data", "x", "--work", str(tmp_path), "--workers", "3", "--threads", "2"]
    workers.main([*flags, "--warm-up", "1", "--repetitions", "2"])
    assert asked == [(1, 6, 3), (3, 2, 1)] * 2
    found = json.loads((tmp_path / "workers.json").read_text())["sizes"]["tiny"]
    assert found["ratio"] == 9.0 and found["ratio_by_repetition"] == [9.0, 9.0]
    assert found["one"]["tokens_per_second"] == 30.0


@pytest.mark.slow
def test_a_tiny_run(toy_data_bin: Path, tmp_path: Path, capsys) -> None:
    flags = ["--data", str(toy_data_bin), "--work", str(tmp_path), "--max-tokens", "100"]
    workers.main([*flags, "--updates", "2", "--warm-up", "1", "--repetitions", "1"])
    found = json.loads((tmp_path / "workers.json").read_text())["sizes"]["tiny"]
    assert found["one"]["tokens_per_second"] > 0 and found["several"]["tokens_per_second"] > 0
    assert "1 worker with 2 threads, 2 with 1" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "logs").iterdir()} == {
        "tiny-one-1.0", "tiny-several-1.0", "tiny-several-1.1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--workers", "0"], "--workers 0: must be at least 1"),
        (["--device", "gpu"], "--device gpu"),
    ],
)
def test_bad_flags(flags: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        workers.main(["--data", "synthetic", *flags, "--work", str(tmp_path / "work")])
    assert not (tmp_path / "work").exists()
