"""Checkpoint files: nothing in them runs, bad ones are named, and none is ever half written."""

import argparse
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from vaswani_plugin.inference.checkpoints import load_checkpoint, save_checkpoint

STATE = {"model": {"w": torch.arange(3.0)}, "cfg": {"model": {"_name": "x"}}}


class Runs:
    """Unpickled by the unrestricted pickle, this makes the file `marker`."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.marker),)


def test_round_trip(tmp_path: Path) -> None:
    save_checkpoint(STATE, tmp_path / "a.pt")
    loaded = load_checkpoint(tmp_path / "a.pt")
    assert torch.equal(loaded["model"]["w"], STATE["model"]["w"])
    assert loaded["cfg"] == STATE["cfg"]
    assert os.listdir(tmp_path) == ["a.pt"]


def test_several_threads_load_at_once(tmp_path: Path) -> None:
    """What the unpickler allows is a setting of the whole process."""
    path = tmp_path / "a.pt"
    torch.save(STATE | {"args": argparse.Namespace(arch="x")}, path)

    def load_often(_: int) -> int:
        return sum(load_checkpoint(path)["args"].arch == "x" for _ in range(100))

    kept = torch.serialization.get_safe_globals()
    try:
        torch.serialization.clear_safe_globals()
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(load_often, range(4))) == [100] * 4
    finally:
        torch.serialization.add_safe_globals(kept)


@pytest.mark.parametrize("before", [[], [argparse.Namespace]])
def test_flags_in_a_namespace_load_and_permissions_are_as_before(
    tmp_path: Path, before: list[type]
) -> None:
    save_checkpoint(STATE | {"args": argparse.Namespace(arch="t")}, tmp_path / "a.pt")
    kept = torch.serialization.get_safe_globals()
    try:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)
        assert load_checkpoint(tmp_path / "a.pt")["args"].arch == "t"
        assert torch.serialization.get_safe_globals() == before
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(kept)


def test_sums_of_eval_bleu_load(tmp_path: Path) -> None:
    """Numbers and arrays of numpy; PyTorch refuses them where they are not allowed."""
    sums = {"one": np.float64(2.5), "many": np.arange(4)}
    path, kept = tmp_path / "a.pt", torch.serialization.get_safe_globals()
    torch.save(STATE | {"extra_state": sums}, path)
    try:
        torch.serialization.clear_safe_globals()
        with pytest.raises(pickle.UnpicklingError):
            torch.load(path)
        found = load_checkpoint(path)["extra_state"]
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(kept)
    assert found["one"] == 2.5 and found["many"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("zipped", [True, False])
def test_code_is_refused_and_not_run(tmp_path: Path, zipped: bool) -> None:
    marker, path = tmp_path / "marker", tmp_path / "evil.pt"
    torch.save(STATE | {"extra_state": Runs(marker)}, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError, match=r"evil\.pt: refused: it would call (posix|nt)\.mkdir"):
        load_checkpoint(path)
    assert not marker.exists()
    # The trap works: the unrestricted pickle runs it.
    pickle.loads(pickle.dumps(Runs(marker)))
    assert marker.is_dir()


def test_code_of_a_blocked_module_is_named(tmp_path: Path) -> None:
    class Evaluates:
        def __reduce__(self) -> tuple:
            return eval, ("1 + 1",)

    torch.save(STATE | {"extra_state": Evaluates()}, tmp_path / "evil.pt")
    with pytest.raises(ValueError, match="refused: it would call eval,"):
        load_checkpoint(tmp_path / "evil.pt")


@pytest.mark.parametrize("zipped", [True, False])
def test_truncated_files_are_named(tmp_path: Path, zipped: bool) -> None:
    torch.save(STATE, tmp_path / "whole.pt", _use_new_zipfile_serialization=zipped)
    whole, path = (tmp_path / "whole.pt").read_bytes(), tmp_path / "cut.pt"
    # The old format may be cut within a class's name, which then is another, unknown one.
    why = "truncated, or no checkpoint at all" + ("" if zipped else "|refused: it would call")
    for size in range(0, len(whole), 2):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=rf"cut\.pt: ({why})"):
            load_checkpoint(path)


def test_failing_disk_is_an_oserror_with_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(5, "Input/output error")

    save_checkpoint(STATE, tmp_path / "a.pt")
    monkeypatch.setattr(torch, "load", fail)
    with pytest.raises(OSError, match=r"a\.pt: can't be read: Input/output error"):
        load_checkpoint(tmp_path / "a.pt")


@pytest.mark.parametrize(
    "data", [b"just text\n", b"\x80\x02}.", pickle.dumps([1]), bytes(range(256)) * 8]
)
def test_foreign_files_are_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "foreign.pt"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"foreign\.pt: "):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([1, 2], "it holds no model"),
        ({"cfg": {}}, "it holds no model"),
        ({"model": {}}, "it holds no model"),
        ({"model": {"w": 3}}, "its model's 'w' is no tensor"),
    ],
)
def test_other_torch_files_are_named(tmp_path: Path, state: object, message: str) -> None:
    torch.save(state, tmp_path / "other.pt")
    with pytest.raises(ValueError, match=rf"other\.pt: no fairseq checkpoint: {message}"):
        load_checkpoint(tmp_path / "other.pt")


def test_missing_file_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_checkpoint(tmp_path / "absent.pt")


def test_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.pt"
    save_checkpoint(STATE, path)
    before = path.read_bytes()

    def fail(state: object, file: object) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match="No space"):
        save_checkpoint(STATE, path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.pt"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="NOT TESTED: no /dev/full here")
def test_full_disk_is_an_oserror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_open = open
    monkeypatch.setattr(
        "vaswani_plugin.inference.checkpoints.open",
        lambda path, mode: real_open("/dev/full", mode),
        raising=False,
    )
    with pytest.raises(OSError):
        save_checkpoint({"model": {"w": torch.zeros(100_000)}}, tmp_path / "a.pt")
    assert os.listdir(tmp_path) == []


def test_a_tensor_that_claims_more_than_it_holds(tmp_path: Path) -> None:
    """A few bytes can stand for a tensor of terabytes, which every use would make room for."""
    torch.save({"model": {"w": torch.zeros(()).expand(2**40)}}, tmp_path / "a.pt")
    with pytest.raises(ValueError, match=r"a\.pt: no fairseq checkpoint: w is larger"):
        load_checkpoint(tmp_path / "a.pt")
