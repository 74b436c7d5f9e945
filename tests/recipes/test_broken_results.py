"""JSON files of recipes that are broken, or somebody else's: one line, or done again."""

import json
import sys
from pathlib import Path

import pytest

from tests.support.scripts import ROOT, assert_one_line_error, run_script

sys.path.append(str(ROOT / "recipes" / "lib"))

import digests
import trainings

from vaswani_plugin.errors import UserError

BROKEN = [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b"[" * 100_000, b'{"bleu": 1}']


@pytest.mark.parametrize("content", BROKEN)
def test_a_cache_of_sums_is_used_or_made_anew(tmp_path, content):
    (tmp_path / "cache.json").write_bytes(content)
    cache = digests.read_cache(tmp_path / "cache.json")
    assert cache == {}
    (tmp_path / "x").write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digests.digest(tmp_path / "x", cache) == empty
    (tmp_path / "cache.json").write_text(json.dumps(cache))
    assert digests.read_cache(tmp_path / "cache.json") == cache != {}


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_result_of_a_training_is_named(tmp_path, content):
    assert trainings.finished(tmp_path, "key") is None
    (tmp_path / "result.json").write_bytes(content)
    if content.startswith(b"{") and content.endswith(b"}"):
        assert trainings.finished(tmp_path, "key") is None
        return
    with pytest.raises(UserError, match=r"result\.json: .*delete it"):
        trainings.finished(tmp_path, "key")


@pytest.mark.parametrize("content", [b"{", b"{}", b'{"arch": 1, "parameters": []}'])
def test_the_last_line_of_a_broken_result(tmp_path: Path, content: bytes):
    (tmp_path / "result.json").write_bytes(content)
    done = run_script("recipes/lib/summary.py", tmp_path / "result.json", "--title", "t")
    assert_one_line_error(done, "summary.py: error: ", f"{tmp_path}/result.json: ")
