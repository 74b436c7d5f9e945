"""The translation task's dictionary makes the same text of a sentence as fairseq's, and faster."""

import pytest
import torch
from fairseq.data import Dictionary

from vaswani_plugin.fairseq_plugin.tasks._dictionary import TextDictionary
from vaswani_plugin.fairseq_plugin.tasks.translation import VaswaniTranslationTask


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
    dictionary = TextDictionary()
    for word in ("a@@", "b", "c"):
        dictionary.add_symbol(word)
    tokens = torch.tensor([0, 4, 5, 3, 6, 1, 2] * rows).view(rows, -1).squeeze(0)
    if rows > 1:
        options = {k: v for k, v in options.items() if k not in ("unk_string", "separator")}
    own = Dictionary.string(dictionary, tokens, **options)
    assert dictionary.string(tokens, **options) == own
    assert "b" in own or options.get("extra_symbols_to_ignore")


def test_the_words_are_looked_up_as_numbers(monkeypatch):
    dictionary, asked = TextDictionary(), []
    monkeypatch.setattr(Dictionary, "__getitem__", lambda self, index: asked.append(index) or "x")
    assert dictionary.string(torch.tensor([4, 5, 2])) == "x x"
    assert [type(index) for index in asked] == [int, int]


def test_the_translation_task_uses_it(toy_data_bin):
    loaded = VaswaniTranslationTask.load_dictionary(str(toy_data_bin / "dict.src.txt"))
    assert type(loaded) is TextDictionary and len(loaded) > 20
