"""recipes/benchmarks/soak: what it sees of a process, and what it calls flat."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toy_bundle import SENTENCES, write_toy_bundle

from tests.conftest import REPO

sys.path.insert(0, str(REPO / "recipes" / "benchmarks"))

import soak  # noqa: E402

from vaswani_plugin.errors import UserError  # noqa: E402

MEBIBYTE = 2**20


def make_samples(memory=lambda t: 500, files=lambda t: 9, work=lambda t: 10 * t) -> list:
    """A hundred looks, one a second, at a process of which half a processor is used."""
    return [
        soak.Sample(t, memory(t) * MEBIBYTE, files(t), t / 2, work(t))
        for t in map(float, range(100))
    ]


def test_steady_is_flat() -> None:
    found = soak.verdict(make_samples())
    assert found["flat"] == {"memory": True, "descriptors": True, "rate": True}
    assert found["rate"]["first"] == pytest.approx(20) == found["rate"]["last"]
    assert found["rate_by_the_clock"]["last"] == pytest.approx(10)


def test_the_warm_up_may_grow() -> None:
    found = soak.verdict(
        make_samples(
            memory=lambda t: 500 if t >= 20 else 100 + t,
            files=lambda t: 9 if t >= 20 else 3,
            work=lambda t: max(0, t - 20),
        )
    )
    assert all(found["flat"].values())


@pytest.mark.parametrize(
    ("name", "growing"),
    [
        ("memory", {"memory": lambda t: 500 + t}),
        ("descriptors", {"files": lambda t: 9 + (t > 60)}),
        ("rate", {"work": lambda t: 10 * t - 0.025 * t**2}),
    ],
)
def test_what_grows_or_slows_down_is_not(name: str, growing: dict) -> None:
    flat = soak.verdict(make_samples(**growing))["flat"]
    assert not flat.pop(name) and all(flat.values())


def test_medians_forgive_one_look() -> None:
    found = soak.verdict(make_samples(memory=lambda t: 5000 if t == 90 else 500))
    assert found["flat"]["memory"] and found["memory"]["highest"] == 5000 * MEBIBYTE


@pytest.mark.parametrize("samples", [[], make_samples()[:5], make_samples(work=lambda t: 7)])
def test_too_little_to_tell(samples: list) -> None:
    with pytest.raises(UserError, match="--minutes"):
        soak.verdict(samples)


def test_a_process_seen_from_outside(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        f"files = [open({str(tmp_path / 'x')!r}, 'w') for _ in range(20)]\n"
        "while time.process_time() < 0.5: pass\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        process.stdout.readline()
        files, seconds = soak.open_files_and_time(process.pid)
        assert files >= 23  # the three standard ones
        assert files < 40 and 0.4 < seconds < 5
    finally:
        soak._end(process)
    assert process.returncode is not None
    process.stdout.close()
    assert soak.open_files_and_time(process.pid) == (0, 0.0)


def test_a_process_that_ends_early_names_its_log(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    command = [sys.executable, "-c", "import sys; print('because', file=sys.stderr); sys.exit(3)"]
    process = soak._start(command, log, threads=1)
    with pytest.raises(UserError, match=r"exit code 3, see .*x\.log: because"):
        soak.watch(process, 5, lambda: 0.0, log)
    soak._end(process)  # has nothing left to do


def test_samples_are_taken_until_the_time_is_over(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(soak, "SAMPLES", 10)
    process = soak._start(["sleep", "60"], tmp_path / "log", threads=1)
    try:
        start = time.perf_counter()
        samples = soak.watch(process, 1 / 60, lambda: 4.0, tmp_path / "log")
        assert 1 <= time.perf_counter() - start < 20
    finally:
        soak._end(process)
    assert 2 <= len(samples) <= 10 and samples[-1].work == 4.0
    assert all(sample.memory > 0 for sample in samples)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--minutes", "0"], "--minutes 0.0"),
        (["--minutes", "nan"], "--minutes nan"),
        (["--threads", "0"], "--threads 0"),
        ([], "--data None: not there"),
        (["--parts", "translate", "--model", "."], "--lines None: not there"),
    ],
)
def test_bad_flags(flags: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        soak.main([*flags, "--work", str(tmp_path / "work")])
    assert not (tmp_path / "work").exists()


@pytest.mark.slow
def test_both_parts_run(toy_data_bin: Path, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "bundle").mkdir()
    bundle = write_toy_bundle(tmp_path / "bundle")
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in SENTENCES))
    # A minute tells nothing of memory; that they run, are seen, and end is what is tested.
    monkeypatch.setattr(soak, "MOST_CHANGE", {"memory": 9.0, "descriptors": 9.0, "rate": -1.0})
    soak.main(
        [
            *("--data", str(toy_data_bin), "--arch", "vaswani_debug", "--minutes", "1"),
            *("--model", str(bundle), "--lines", str(tmp_path / "lines")),
            *("--work", str(tmp_path / "work")),
        ]
    )
    result = json.loads((tmp_path / "work" / "soak.json").read_text())
    for part in soak.PARTS:
        assert result[part]["work"] > 10 and len(result[part]["samples"]) > 20
        assert result[part]["memory"]["highest"] > 100 * MEBIBYTE
