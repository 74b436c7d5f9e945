"""A checkpoint remembers its dictionaries: others of the same size are refused."""

import pytest
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from model_factory import make_dictionary

from vaswani_plugin.fairseq_plugin.tasks.translation import (
    VaswaniTranslationConfig,
    VaswaniTranslationTask,
)


def make_task(dictionary: Dictionary) -> VaswaniTranslationTask:
    return VaswaniTranslationTask(VaswaniTranslationConfig(data="DATA"), dictionary, dictionary)


def test_the_same_words_are_accepted():
    state = make_task(make_dictionary(9)).state_dict()
    task = make_task(make_dictionary(9))
    task.load_state_dict(state)
    assert task.state_dict() == state


def test_other_words_of_the_same_number_are_refused():
    state = make_task(make_dictionary(9, prefix="a")).state_dict()
    with pytest.raises(ValueError, match="source dictionary of DATA is not the one"):
        make_task(make_dictionary(9, prefix="b")).load_state_dict(state)


def test_another_order_is_refused():
    shuffled = Dictionary()
    for number in reversed(range(9)):
        shuffled.add_symbol(f"w{number}")
    state = make_task(make_dictionary(9)).state_dict()
    with pytest.raises(ValueError, match="source dictionary"):
        make_task(shuffled).load_state_dict(state)


def test_checkpoints_without_digests_load():
    make_task(make_dictionary(9)).load_state_dict({})


def test_generation_refuses_them(toy_data_bin, run_fairseq, tmp_path):
    save, other = tmp_path / "save", tmp_path / "other"
    ours = ("--task", "vaswani_translation", "--cpu", "--max-tokens", 500)
    trained = run_fairseq(
        *("train", toy_data_bin, *ours, "--arch", "vaswani_debug", "--max-update", 1),
        *("--save-dir", save, "--no-progress-bar", "--no-epoch-checkpoints"),
    )
    assert trained.returncode == 0, trained.stderr
    checkpoint = save / "checkpoint_last.pt"
    assert "dictionary_sha256" in checkpoint_utils.load_checkpoint_to_cpu(checkpoint)["task_state"]
    other.mkdir()
    for file in toy_data_bin.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    for language in ("src", "tgt"):
        path = other / f"dict.{language}.txt"
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(reversed(lines)), encoding="utf-8")
    arguments = (*ours, "--path", checkpoint, "--beam", 1)
    refused = run_fairseq("generate", other, *arguments)
    assert refused.returncode != 0
    assert "source dictionary of" in refused.stderr.splitlines()[-1]
    assert run_fairseq("generate", toy_data_bin, *arguments).returncode == 0
