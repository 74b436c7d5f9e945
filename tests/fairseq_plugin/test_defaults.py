"""What the log says of the paper's values: the update's tokens, dropout and sizes beside base's."""

import pytest
from fairseq_flags import training_config

from vaswani_plugin.fairseq_plugin.configurations import VaswaniTransformerConfig
from vaswani_plugin.fairseq_plugin.defaults import MODEL_VALUES, report
from vaswani_plugin.model.architectures import BASE, row_of

TRANSLATION = ("--task", "vaswani_translation")


def line_of(*flags: str) -> str:
    return report(training_config(*TRANSLATION, *flags))


def test_the_model_values_are_bases():
    base = VaswaniTransformerConfig()
    assert all(getattr(base, key) == value for key, value in BASE.items())
    widths = dict.fromkeys(("d_k", "d_v"), base.d_model // base.heads)
    assert MODEL_VALUES == BASE | widths | {"positions": str(base.positions)}
    assert row_of("vaswani_base").changes == {}


def test_sizes_that_differ_from_base_are_named():
    assert "from base: nowhere;" in line_of("--arch", "vaswani_base", "--max-tokens", "4096")
    line = line_of("--arch", "vaswani_base", "--dropout", "0.3", "--max-tokens", "4096")
    assert "from base: dropout=0.3 (0.1);" in line
    line = line_of("--arch", "vaswani_tiny")
    named = ("encoder_layers=4 (6)", "d_model=128 (512)", "d_ff=256 (2048)", "heads=4 (8)")
    assert all(name in line for name in named) and "dropout=" not in line
    assert "from base: d_k=16 (64);" in line_of("--arch", "vaswani_b_dk16", "--max-tokens", "4096")
    line = line_of("--arch", "vaswani_e_learned", "--max-tokens", "4096")
    assert "from base: positions=learned (sinusoidal);" in line


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("4096", "--update-freq", "8"), "x update-freq 8 = 32768 padded tokens, as the authors'"),
        (("4096",), "max-tokens 4096 x 1 device(s) x update-freq 1 = 4096 padded tokens, 0.12 of"),
        (("4000", "--distributed-world-size", "2"), "max-tokens 4000 x 2 device(s)"),
        (
            ("4000", "--update-freq", "8", "--real-tokens", "3125"),
            "= 32000 padded tokens at most, of them about 25000 real ones a side (the paper: about",
        ),
    ],
)
def test_the_update_is_put_beside_the_papers(flags, said):
    assert said in line_of("--arch", "vaswani_base", "--max-tokens", *flags)


def test_what_has_no_such_values_says_nothing():
    line = line_of("--arch", "vaswani_seq2seq_lstm_tiny", "--batch-size", "8")
    assert "an update:" not in line and "from base" not in line


@pytest.mark.parametrize(
    ("flags", "task"),
    [
        (("--arch", "vaswani_base"), "vaswani_translation"),
        (("-a", "vaswani_attention_lstm"), "vaswani_translation"),
        (("--arch=vaswani_lm_tiny",), "vaswani_language_modeling"),
        (("--arch", "vaswani_lm_lstm_tiny"), "vaswani_language_modeling"),
        (("--arch", "vaswani_lm_one_layer_tiny"), "vaswani_language_modeling"),
        (("--arch", "vaswani_base", "--task", "translation"), "translation"),
        (("--arch", "transformer"), "translation"),
    ],
)
def test_our_architectures_are_trained_by_our_tasks(flags, task):
    assert training_config(*flags).task._name == task


def test_our_flags_need_no_task():
    cfg = training_config("--arch", "vaswani_base", "--real-tokens", "3125")
    assert cfg.task.real_tokens == 3125
