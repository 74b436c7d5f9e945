"""Checkpoint files: nothing in them runs, damage is found and named, and none is half written."""

import argparse
import hashlib
import json
import os
import pickle
import random
import re
import shutil
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from toy_bundle import write_toy_bundle

from vaswani_plugin.cli.__main__ import main
from vaswani_plugin.export.checkpoints import save_checkpoint, save_safetensors
from vaswani_plugin.inference.checkpoints import damage, load_checkpoint
from vaswani_plugin.text.settings import CONFIG, MODEL, SAFETENSORS

STATE = {"model": {"w": torch.arange(3.0)}, "cfg": {"model": {"_name": "x"}}}


class Runs:
    """Unpickled by the unrestricted pickle, this makes the file `marker`."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.marker),)


class Evaluates:
    def __reduce__(self) -> tuple:
        return eval, ("1 + 1",)


@pytest.fixture
def safe_globals():
    """What PyTorch's unpickler allows: `set` changes it, and it is put back afterwards."""
    kept = torch.serialization.get_safe_globals()

    def set_to(allowed: list[type]) -> None:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(allowed)

    yield set_to
    set_to(kept)


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Path:
    """A bundle with model.pt and model.safetensors, all embeddings shared."""
    folder = write_toy_bundle(tmp_path_factory.mktemp("toy"), share="all")
    save_safetensors(load_checkpoint(folder / MODEL), folder / SAFETENSORS)
    return folder


@pytest.mark.parametrize("before", [[], [argparse.Namespace]])
def test_flags_and_sums_load_and_permissions_stay(tmp_path, safe_globals, before):
    """A Namespace, and the numpy numbers of --eval-bleu; from four threads at once."""
    sums = {"one": np.float64(2.5), "many": np.arange(4)}
    path = tmp_path / "a.pt"
    torch.save(STATE | {"args": argparse.Namespace(arch="t"), "extra_state": sums}, path)
    safe_globals(before)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path)

    def load_often(_: int) -> list[str]:
        return [load_checkpoint(path)["args"].arch for _ in range(50)]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(load_often, range(4))) == [["t"] * 50] * 4
    found = load_checkpoint(path)["extra_state"]
    assert found["one"] == 2.5 and found["many"].tolist() == [0, 1, 2, 3]
    assert torch.serialization.get_safe_globals() == before


@pytest.mark.parametrize("zipped", [True, False])
def test_code_is_refused_and_not_run(tmp_path, zipped):
    marker, path = tmp_path / "marker", tmp_path / "evil.pt"
    for content, name in ((Runs(marker), r"(posix|nt)\.mkdir"), (Evaluates(), "eval,")):
        torch.save(STATE | {"x": content}, path, _use_new_zipfile_serialization=zipped)
        with pytest.raises(ValueError, match=rf"evil\.pt: refused: it would call {name}"):
            load_checkpoint(path)
    assert not marker.exists()
    pickle.loads(pickle.dumps(Runs(marker)))  # the trap works: the unrestricted pickle runs it
    assert marker.is_dir()


@pytest.mark.parametrize("zipped", [True, False])
def test_truncated_files_are_named(tmp_path, zipped):
    torch.save(STATE, tmp_path / "whole.pt", _use_new_zipfile_serialization=zipped)
    whole, path = (tmp_path / "whole.pt").read_bytes(), tmp_path / "cut.pt"
    # The old format may be cut within a class's name, which then is another, unknown one.
    why = "it is (truncated|empty|no checkpoint)"
    why += "" if zipped else "|truncated, or no checkpoint at all|refused: it would call"
    for size in range(0, len(whole), 17):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=rf"cut\.pt: ({why})"):
            load_checkpoint(path)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([1, 2], "it holds no model"),
        ({"cfg": {}}, "it holds no model"),
        ({"model": {}}, "it holds no model"),
        ({"model": {"w": 3}}, "its model's 'w' is no tensor"),
        # A few bytes can stand for a tensor of terabytes, which every use would make room for.
        ({"model": {"w": torch.zeros(()).expand(2**40)}}, "w is larger than its numbers"),
    ],
)
def test_other_torch_files_are_named(tmp_path, state, message):
    torch.save(state, tmp_path / "other.pt")
    with pytest.raises(ValueError, match=rf"other\.pt: no fairseq checkpoint: {message}"):
        load_checkpoint(tmp_path / "other.pt")


def test_a_compressed_checkpoint_is_refused_before_it_is_read(tmp_path):
    torch.save({"model": {"w": torch.zeros(10_000_000)}}, tmp_path / "stored.pt")
    with (
        zipfile.ZipFile(tmp_path / "stored.pt") as stored,
        zipfile.ZipFile(tmp_path / "small.pt", "w", zipfile.ZIP_DEFLATED) as small,
    ):
        for name in stored.namelist():
            small.writestr(name, stored.read(name))
    load_checkpoint(tmp_path / "stored.pt")
    with pytest.raises(ValueError, match="has parts that are larger than the file"):
        load_checkpoint(tmp_path / "small.pt")


def test_a_failing_disk_is_an_oserror_and_the_old_file_stays(tmp_path, monkeypatch):
    path = tmp_path / "a.pt"
    save_checkpoint(STATE, path)
    before = path.read_bytes()

    def fail_to_save(state: object, file) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", fail_to_save)
    with pytest.raises(OSError, match="No space"):
        save_checkpoint(STATE, path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.pt"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "saved.pt"
    generator = torch.Generator().manual_seed(1)
    tensors = {f"t{n}": torch.randn(n + 1, 7, generator=generator) for n in range(12)}
    torch.save({"model": tensors, "updates": 17, "words": ["a"] * 100}, path)
    return path


def same(state, other):
    tensors, others = state.pop("model"), other.pop("model")
    equal = all(torch.equal(tensors[name], others[name]) for name in others)
    return equal and tensors.keys() == others.keys() and state == other


def test_every_flipped_bit_is_found_or_harmless(saved, tmp_path):
    whole, rng, found = saved.read_bytes(), random.Random(1), 0
    assert damage(saved) is None
    for _ in range(300):
        content = bytearray(whole)
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        (tmp_path / "flipped.pt").write_bytes(content)
        if damage(tmp_path / "flipped.pt"):
            found += 1
            continue
        try:
            state = torch.load(tmp_path / "flipped.pt")
        except Exception:
            continue  # loaded by nobody
        assert same(state, torch.load(saved))
    assert found > 50


def test_pytorch_itself_finds_no_flipped_bit(saved, tmp_path):
    """Why all this is needed; when this fails it is no longer."""
    with zipfile.ZipFile(saved) as archive:
        name = next(name for name in archive.namelist() if name.endswith("data/5"))
        content = archive.read(name)
    whole = bytearray(saved.read_bytes())
    whole[whole.index(content)] ^= 1
    (tmp_path / "flipped.pt").write_bytes(whole)
    assert not same(torch.load(tmp_path / "flipped.pt"), torch.load(saved))
    assert damage(tmp_path / "flipped.pt").startswith("is not as it was saved (the sum of ")
    with pytest.raises(ValueError, match=r"flipped\.pt: it is not as it was saved .*again"):
        load_checkpoint(tmp_path / "flipped.pt")


@pytest.mark.parametrize("name", [MODEL, "codes"])
def test_a_link_in_a_bundle_is_refused_by_every_command(toy, tmp_path, name, capsys):
    """It would read, copy or overwrite a file outside of the folder."""
    folder, outside = tmp_path / "model", tmp_path / "outside"
    shutil.copytree(toy, folder)
    (folder / name).rename(outside)
    (folder / name).symlink_to(outside)
    before = outside.read_bytes()
    at, out = ["--model", str(folder)], ["--output", str(tmp_path / "out")]
    commands = [["card", *at], ["translate", *at]]
    for to in ("fairseq", "ctranslate2", "huggingface", "onnx"):
        commands.append(["export", *at, *out, "--to", to])
    for command in commands:
        assert main(command) == 1
        assert f"{folder / name} is a link" in capsys.readouterr().err
    assert outside.read_bytes() == before and not (tmp_path / "out").exists()


def test_tied_weights_are_stored_once_and_stay_tied(toy):
    stored = safetensors.numpy.load_file(toy / SAFETENSORS)
    weights = torch.load(toy / MODEL)["model"]
    left_out = weights.keys() - stored.keys()
    assert left_out == {"decoder.embedding.weight", "decoder.projection.weight"}
    assert all(np.array_equal(stored[name], weights[name].numpy()) for name in stored)
    loaded = load_checkpoint(toy / SAFETENSORS)["model"]
    assert all(loaded[name] is loaded["encoder.embedding.weight"] for name in left_out)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64])
def test_every_type_and_every_view_keeps_its_numbers(dtype, tmp_path):
    base = (torch.randn(6, 8) * 100).to(dtype)
    weights = {
        **{"whole": base, "again": base, "rows": base[2:4], "turned": base.t()},
        **{"empty": base[:0], "other": base.clone(), "scalar": base[0, 0]},
    }
    save_safetensors({"model": weights}, tmp_path / "x.safetensors")
    found = load_checkpoint(tmp_path / "x.safetensors")["model"]
    assert found.keys() == weights.keys() and found["again"] is found["whole"]
    for name, tensor in weights.items():
        assert found[name].dtype == dtype and torch.equal(found[name], tensor), name


def test_damaged_safetensors_are_named(toy, tmp_path):
    for name in (SAFETENSORS, CONFIG):
        shutil.copy(toy / name, tmp_path)
    path, config = tmp_path / SAFETENSORS, tmp_path / CONFIG
    whole = path.read_bytes()
    flips = (0, 100, len(whole) // 2, len(whole) - 1)
    changed = [whole[:n] + bytes([whole[n] ^ 1]) + whole[n + 1 :] for n in flips]
    for content in (*changed, whole[:-1], b""):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=re.escape(f"{path}: damaged")):
            load_checkpoint(path)
    path.write_bytes(b"no header")
    known = json.loads(config.read_text(encoding="utf-8"))
    known["sha256"] = hashlib.sha256(b"no header").hexdigest()
    config.write_text(json.dumps(known), encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(f"{path}: no weights of a model")):
        load_checkpoint(path)
    for content in (b"", b"{", b"[1]", b"null", b"\xff"):
        config.write_bytes(content)
        with pytest.raises(ValueError, match=re.escape(str(config))):
            load_checkpoint(path)
    config.unlink()
    with pytest.raises(ValueError, match="config.json does not exist: the weights need it"):
        load_checkpoint(path)


def test_a_bundle_names_no_path_of_its_training(toy):
    """config.json goes to other people with the model."""
    data = load_checkpoint(toy / MODEL)["cfg"]["task"]["data"]
    assert data and data not in (toy / CONFIG).read_text(encoding="utf-8")
