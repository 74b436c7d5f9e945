"""A dictionary that is none ends in one line with its name."""

import pytest
from fairseq.data import Dictionary

from vaswani_plugin import register
from vaswani_plugin.fairseq_plugin.patches.dictionaries import DictionaryError

register()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a 1\na 2\n", "Duplicate word"),
        (b"a\n", "Incorrect dictionary format"),
        (b"a x\n", "Incorrect dictionary format"),
        (b"\xff 1\n", "Incorrect encoding"),
    ],
)
def test_a_broken_dictionary_is_named(tmp_path, content, reason):
    path = tmp_path / "dict.en.txt"
    path.write_bytes(content)
    with pytest.raises(DictionaryError, match=rf"dict\.en\.txt: not a dictionary: .*{reason}"):
        Dictionary.load(str(path))


def test_others_load_as_before(tmp_path):
    (tmp_path / "dict.txt").write_text("a 2\nb 1\n<pad> 0 #fairseq:overwrite\n", encoding="utf-8")
    assert Dictionary.load(str(tmp_path / "dict.txt")).symbols[4:] == ["a", "b", "<pad>"]
    with pytest.raises(FileNotFoundError):
        Dictionary.load(str(tmp_path / "none.txt"))
