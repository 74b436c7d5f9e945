"""Checkpoint files: nothing in them runs, damage is found and named, and none is half written."""

import argparse
import pickle
import random
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from toy_bundle import write_toy_bundle

from tests.support.scripts import Runs
from vaswani_plugin.export.checkpoints import save_safetensors
from vaswani_plugin.inference.checkpoints import damage, load_checkpoint
from vaswani_plugin.text.settings import CONFIG, MODEL, SAFETENSORS

STATE = {"model": {"w": torch.arange(3.0)}, "cfg": {"model": {"_name": "x"}}}


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Path:
    """A bundle with model.pt and model.safetensors, all embeddings shared."""
    folder = write_toy_bundle(tmp_path_factory.mktemp("toy"), share="all")
    save_safetensors(load_checkpoint(folder / MODEL), folder / SAFETENSORS)
    return folder


def test_flags_and_sums_load(tmp_path):
    """A Namespace, and the numpy numbers of --eval-bleu, where nothing else was allowed before."""
    sums = {"one": np.float64(2.5), "many": np.arange(4)}
    path = tmp_path / "a.pt"
    torch.save(STATE | {"args": argparse.Namespace(arch="t"), "extra_state": sums}, path)
    torch.serialization.clear_safe_globals()
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path)
    assert load_checkpoint(path)["args"].arch == "t"
    found = load_checkpoint(path)["extra_state"]
    assert found["one"] == 2.5 and found["many"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("zipped", [True, False])
def test_code_is_refused_and_a_truncated_file_named(tmp_path, zipped):
    marker, path = tmp_path / "marker", tmp_path / "evil.pt"
    torch.save(STATE | {"x": Runs(marker)}, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError, match=r"evil\.pt: it is refused: .* (posix|nt)\.mkdir"):
        load_checkpoint(path)
    assert not marker.exists()
    pickle.loads(pickle.dumps(Runs(marker)))  # the trap works: the unrestricted pickle runs it
    assert marker.is_dir()
    torch.save(STATE, tmp_path / "whole.pt", _use_new_zipfile_serialization=zipped)
    whole, path = (tmp_path / "whole.pt").read_bytes(), tmp_path / "cut.pt"
    # The old format may be cut within a class's name, which then is another, unknown one.
    why = "truncated|empty|no checkpoint" + ("" if zipped else "|refused: it would call")
    for size in range(0, len(whole), 17):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=rf"cut\.pt: it is ({why})"):
            load_checkpoint(path)


@pytest.mark.parametrize("state", [[1, 2], {"model": {}}])
def test_other_torch_files_are_named(tmp_path, state):
    torch.save(state, tmp_path / "other.pt")
    with pytest.raises(ValueError, match=r"other\.pt: no fairseq checkpoint: it holds no model"):
        load_checkpoint(tmp_path / "other.pt")


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
    path = tmp_path / "flipped.pt"
    for _ in range(300):
        content = bytearray(whole)
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        if damage(path):
            found += 1
            continue
        try:
            state = torch.load(path)
        except Exception:
            continue  # loaded by nobody
        assert same(state, torch.load(saved))
    assert found > 50 and damage(saved) is None
    # PyTorch itself finds none: when this fails, all this is no longer needed.
    with zipfile.ZipFile(saved) as archive:
        name = next(name for name in archive.namelist() if name.endswith("data/5"))
        content = archive.read(name)
    flipped = bytearray(whole)
    flipped[whole.index(content)] ^= 1
    path.write_bytes(flipped)
    assert not same(torch.load(path), torch.load(saved))
    with pytest.raises(ValueError, match=r"flipped\.pt: it is not as it was saved .*again"):
        load_checkpoint(path)


def test_tied_weights_are_stored_once_and_stay_tied(toy):
    """And config.json, which goes to other people, names no path of the training."""
    data = load_checkpoint(toy / MODEL)["cfg"]["task"]["data"]
    assert data and data not in (toy / CONFIG).read_text(encoding="utf-8")
    stored = safetensors.numpy.load_file(toy / SAFETENSORS)
    weights = torch.load(toy / MODEL)["model"]
    left_out = weights.keys() - stored.keys()
    assert left_out == {"decoder.embedding.weight", "decoder.projection.weight"}
    assert all(np.array_equal(stored[name], weights[name].numpy()) for name in stored)
    loaded = load_checkpoint(toy / SAFETENSORS)["model"]
    assert all(loaded[name] is loaded["encoder.embedding.weight"] for name in left_out)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.int64])
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
    config.unlink()
    with pytest.raises(ValueError, match="config.json does not exist: the weights need it"):
        load_checkpoint(path)
