"""A result's data, truncated, replaced or gone afterwards."""

import hashlib
import json

import pytest

from tests.support.scripts import assert_one_line_error, run_script

TEXT, NUMBERS = b"one line\n", b"\x01\x02\x03"


@pytest.fixture
def result(tmp_path):
    files = {"raw/test.en": TEXT, "data-bin/train.bin": NUMBERS, "outside.en": b""}
    entries = []
    for name, content in files.items():
        if name != "outside.en":
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        entries.append({"file": name, "bytes": len(content), "sha256": digest})
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"data": entries[::2], "binarized": entries[1:2]}))
    return path


def check(path):
    return run_script("recipes/lib/check_data.py", path)


def test_data_as_they_were(result):
    done = check(result)
    assert (done.returncode, done.stdout) == (0, "2 files as they were\n")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("raw/test.en", b"one l", "raw/test.en has 5 bytes instead of 9"),
        ("raw/test.en", None, "raw/test.en is missing"),
        ("data-bin/train.bin", b"\x01\x02\x04", "data-bin/train.bin holds something else"),
    ],
)
def test_changed_data_are_named(result, name, content, words):
    path = result.parent / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert_one_line_error(check(result), "result.json: not the data of this result", words)


def test_another_file_is_no_result(tmp_path):
    (tmp_path / "x.json").write_text("[]")
    assert_one_line_error(check(tmp_path / "x.json"), "x.json: no result of a recipe")
