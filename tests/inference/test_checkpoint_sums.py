"""A damaged checkpoint is found out, or the damage is to bytes that mean nothing."""

import random
import zipfile

import pytest
import torch

from vaswani_plugin.inference.checkpoints import damage


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


def test_a_sound_file_passes(saved):
    assert damage(saved) is None


def test_every_flipped_bit_is_found_or_harmless(saved, tmp_path):
    whole, rng, found = saved.read_bytes(), random.Random(1), 0
    for _ in range(600):
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
    assert found > 100


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


@pytest.mark.parametrize("kept", [0.0, 0.0001, 0.3, 0.9, 0.9999])
def test_a_truncated_file_is_found(saved, tmp_path, kept):
    whole = saved.read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[: int(len(whole) * kept)])
    assert damage(tmp_path / "cut.pt") in ("is truncated", "is empty", "is no checkpoint")


def test_a_file_that_was_never_written_out_is_found(saved, tmp_path):
    (tmp_path / "zeros.pt").write_bytes(bytes(saved.stat().st_size))
    assert damage(tmp_path / "zeros.pt") == "is no checkpoint"


def test_an_old_file_holds_no_sums(tmp_path):
    torch.save({"a": 1}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert damage(tmp_path / "old.pt") is None


def test_a_missing_file_stays_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        damage(tmp_path / "none.pt")
