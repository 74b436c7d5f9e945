"""A dictionary that is none ends in one line with its name; sentences are strings as before."""

import pytest
import torch
from fairseq.data import Dictionary

from vaswani_plugin import register
from vaswani_plugin.compat.dictionaries import DictionaryError

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
    with pytest.raises(DictionaryError, match=rf"dict\.en\.txt: no dictionary: .*{reason}"):
        Dictionary.load(str(path))


def test_others_load_as_before(tmp_path):
    (tmp_path / "dict.txt").write_text("a 2\nb 1\n<pad> 0 #fairseq:overwrite\n", encoding="utf-8")
    assert Dictionary.load(str(tmp_path / "dict.txt")).symbols[4:] == ["a", "b", "<pad>"]
    with pytest.raises(FileNotFoundError):
        Dictionary.load(str(tmp_path / "none.txt"))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bpe_symbol": "@@ "},
        {"escape_unk": True},
        {"unk_string": "?"},
        {"include_eos": True},
        {"extra_symbols_to_ignore": {5}},
        {"separator": "_"},
    ],
)
@pytest.mark.parametrize("rows", [1, 2])
def test_a_sentence_is_the_string_it_was(options, rows):
    """fairseq's own function, under the mend, is the reference."""
    dictionary = Dictionary()
    for word in ("a@@", "b", "c"):
        dictionary.add_symbol(word)
    tokens = torch.tensor([0, 4, 5, 3, 6, 1, 2] * rows).view(rows, -1).squeeze(0)
    if rows > 1:
        options = {k: v for k, v in options.items() if k not in ("unk_string", "separator")}
    own = Dictionary.string.__wrapped__(dictionary, tokens, **options)
    assert dictionary.string(tokens, **options) == own
    assert "b" in own or options.get("extra_symbols_to_ignore")


def test_the_words_are_looked_up_as_numbers(monkeypatch):
    dictionary, asked = Dictionary(), []
    monkeypatch.setattr(Dictionary, "__getitem__", lambda self, index: asked.append(index) or "x")
    assert dictionary.string(torch.tensor([4, 5, 2])) == "x x"
    assert [type(index) for index in asked] == [int, int]
