"""Data that change under a training are noticed: truncated, replaced, gone."""

import os
import shutil

import pytest

from tests.faults.forks import updates_in
from vaswani_plugin.fairseq_plugin.training.manifest import DataChanged, DataManifest, data_files

TRAIN = "train.src-tgt.src.bin"


@pytest.fixture
def manifest(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for name in ("train.bin", "valid.bin", "dict.src.txt", "test.bin", "preprocess.log"):
        (data / name).write_bytes(name.encode() * 10)
    made = DataManifest(data_files(str(data), ["train", "valid"]), tmp_path)
    made.begin()
    return made


def test_what_a_training_reads(manifest):
    assert sorted(manifest.entries) == ["0/dict.src.txt", "0/train.bin", "0/valid.bin"]
    assert manifest.entries["0/train.bin"]["bytes"] == 90


def again(manifest):
    """As a later start sees it."""
    later = DataManifest(manifest.files, manifest.path.parent)
    later.resume()
    return later


def test_files_as_they_were_pass(manifest):
    manifest.check()
    assert again(manifest).entries == manifest.entries


def test_a_file_that_was_copied_passes(manifest):
    path = manifest.files["0/train.bin"]
    os.utime(path, (1, 1))
    manifest.check()
    assert again(manifest).entries["0/train.bin"]["mtime_ns"] == 10**9


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"short", "has 5 bytes instead of 90"),
        (b"x" * 90, "was replaced by another of the same size"),
        (None, "is missing"),
    ],
)
def test_a_changed_file_is_named(manifest, content, words):
    path = manifest.files["0/train.bin"]
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
        os.utime(path, (1, 1))
    for check in (manifest.check, lambda: again(manifest)):
        with pytest.raises(DataChanged, match=rf"data file .*train\.bin {words} since this"):
            check()


def test_a_new_file_is_taken_down(manifest, tmp_path):
    (tmp_path / "data" / "valid1.bin").write_bytes(b"more")
    manifest.files = data_files(str(tmp_path / "data"), ["train", "valid"])
    assert "0/valid1.bin" in again(manifest).entries


def test_several_folders(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.bin").write_bytes(name.encode())
    files = data_files(f"{tmp_path}/a{os.pathsep}{tmp_path}/b", ["train"])
    assert [path.read_bytes() for path in files.values()] == [b"a", b"b"]


def replace_by_another(path):
    """Same size, another content, another inode: what is mapped stays as it was."""
    content = bytearray(path.read_bytes())
    content[0], content[2] = content[2], content[0] ^ 1
    other = path.with_name("other")
    other.write_bytes(content)
    os.utime(other, (1, 1))
    os.replace(other, path)


def test_a_file_replaced_during_an_epoch_ends_the_training(start, data_bin, tmp_path):
    from vaswani_plugin.fairseq_plugin.training.manifest import DataManifest as Manifest

    data = shutil.copytree(data_bin, tmp_path / "data")

    def replaced():
        check, epochs = Manifest.check, []

        def check_later(self):
            epochs.append(1)
            if len(epochs) == 2:
                replace_by_another(data / TRAIN)
            check(self)

        Manifest.check = check_later

    run = start(tmp_path / "run", data=data, fault=replaced)
    assert run.wait() == 1
    error = run.output().splitlines()[-1]
    assert error.startswith(f"error: data file {data}/{TRAIN} was replaced by another of the same")
    assert updates_in(tmp_path / "run" / "checkpoint_last.pt") == 7


def test_a_file_replaced_between_two_starts(start, data_bin, tmp_path):
    data, folder = shutil.copytree(data_bin, tmp_path / "data"), tmp_path / "run"
    assert start(folder, "--max-update", 5, data=data).wait() == 0
    original = (data / TRAIN).read_bytes()
    replace_by_another(data / TRAIN)
    refused = start(folder, data=data)
    assert refused.wait() == 1
    assert f"error: data file {data}/{TRAIN} was replaced" in refused.output()
    (data / TRAIN).write_bytes(original)
    assert start(folder, "--max-update", 6, data=data).wait() == 0
    replace_by_another(data / TRAIN)
    assert start(folder, "--reset-dataloader", data=data).wait() == 0
