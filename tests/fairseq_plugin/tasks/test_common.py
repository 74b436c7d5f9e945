"""Dictionaries: the same text, faster, and remembered by checkpoints; --amp on a CPU."""

import pytest
import torch
from fairseq.data import Dictionary
from model_factory import make_dictionary

from tests.support.forks import train
from vaswani_plugin.fairseq_plugin.tasks._common import TextDictionary
from vaswani_plugin.fairseq_plugin.tasks.translation import (
    VaswaniTranslationConfig,
    VaswaniTranslationTask,
)


@pytest.mark.parametrize("rows", [1, 2])
def test_a_sentence_is_the_string_it_was(toy_data_bin, rows):
    dictionary = VaswaniTranslationTask.load_dictionary(str(toy_data_bin / "dict.src.txt"))
    assert type(dictionary) is TextDictionary
    tokens = torch.tensor([0, 4, 5, 3, 6, 1, 2] * rows).view(rows, -1).squeeze(0)
    for options in ({}, {"bpe_symbol": "@@ ", "escape_unk": True}, {"include_eos": True}):
        own = Dictionary.string(dictionary, tokens, **options)
        assert dictionary.string(tokens, **options) == own and own


def make_task(dictionary: Dictionary) -> VaswaniTranslationTask:
    return VaswaniTranslationTask(VaswaniTranslationConfig(data="DATA"), dictionary, dictionary)


def test_a_checkpoint_remembers_its_dictionaries():
    state = make_task(make_dictionary(9)).state_dict()
    task = make_task(make_dictionary(9))
    task.load_state_dict(state)
    assert task.state_dict() == state
    task.load_state_dict({})  # older ones remember nothing
    shuffled = Dictionary()
    for number in reversed(range(9)):
        shuffled.add_symbol(f"w{number}")
    for other in (shuffled, make_dictionary(9, prefix="b")):
        with pytest.raises(ValueError, match="source dictionary of DATA is not the one"):
            make_task(other).load_state_dict(state)


def test_amp_on_a_cpu_learns_as_float32_does(toy_data_bin, tmp_path):
    """Nearly: its products are in bfloat16."""
    flags = ("--arch", "vaswani_debug", "--task", "vaswani_translation", "--max-tokens", "300")
    flags += ("--max-update", "30", "--warmup-updates", "40", "--lr-factor", "0.5")
    flags += ("--dropout", "0", "--num-workers", "0")
    float32 = train(tmp_path / "float32", toy_data_bin, *flags)
    amp = train(tmp_path / "amp", toy_data_bin, *flags, "--amp")
    assert float32.code == amp.code == 0, amp.log
    assert amp.losses[-1] == pytest.approx(float32.losses[-1], rel=0.01)
    assert amp.losses != float32.losses
