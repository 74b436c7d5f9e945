"""What recipes with several trainings share: devices, folders, commands."""

import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.scripts import ROOT

sys.path.insert(0, str(ROOT / "recipes" / "lib"))

from trainings import Devices, begin, finished


@pytest.mark.parametrize("parallel", [1, 3])
def test_only_so_many_at_a_time(parallel: int) -> None:
    devices, lock = Devices(parallel, gpus=0, threads=2), threading.Lock()
    running, most, seen, begun = 0, 0, [], threading.Barrier(parallel, timeout=60)

    def work(item: int) -> int:
        nonlocal running, most
        with devices.share() as environment:
            with lock:
                running += 1
                most = max(most, running)
                seen.append((environment["OMP_NUM_THREADS"], "PATH" in environment))
            if item < parallel:
                begun.wait()  # the first ones at the same time
            with lock:
                running -= 1
        return item * item

    assert devices.map(work, range(7)) == [n * n for n in range(7)]
    assert most == parallel and set(seen) == {("2", True)} and len(seen) == 7


def test_shares_of_gpus_do_not_overlap() -> None:
    devices = Devices(2, gpus=6, threads=1)
    assert devices.gpus_each == 3
    with devices.share() as first, devices.share() as second:
        assert {first["CUDA_VISIBLE_DEVICES"], second["CUDA_VISIBLE_DEVICES"]} == {"0,1,2", "3,4,5"}
    with devices.share(), devices.share() as again:  # both were given back
        assert again["CUDA_VISIBLE_DEVICES"] in ("0,1,2", "3,4,5")


def test_only_the_visible_gpus_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-8a1f,6")
    devices = Devices(2, gpus=2, threads=1)
    with devices.share() as first, devices.share() as second:
        assert {first["CUDA_VISIBLE_DEVICES"], second["CUDA_VISIBLE_DEVICES"]} == {"4", "GPU-8a1f"}


def test_an_error_begins_nothing_more() -> None:
    devices, begun = Devices(1, gpus=0, threads=1), []

    def work(item: int) -> None:
        begun.append(item)
        time.sleep(0.05)
        if item == 1:
            raise ValueError("the second")

    with pytest.raises(ValueError, match="the second"):
        devices.map(work, range(50))
    assert begun[:2] == [0, 1] and len(begun) < 10


def test_a_training_of_other_options_is_kept(tmp_path: Path) -> None:
    folder, said = tmp_path / "base-1", []
    begin(folder, "seed 1", said.append)
    (folder / "result.json").write_text('{"key": "seed 1"}')
    begin(folder, "seed 1", said.append)
    assert finished(folder, "seed 1") == {"key": "seed 1"} and not said
    for other, kept in (("seed 2", "base-1.1"), ("seed 3", "base-1.2")):
        begin(folder, other, said.append)
        assert [path.name for path in folder.iterdir()] == ["key"]
        assert said.pop().count(str(tmp_path / kept)) == 1 and not said
    assert finished(tmp_path / "base-1.1", "seed 1") == {"key": "seed 1"}
    assert (tmp_path / "base-1.2" / "key").read_text() == "seed 2\n"
