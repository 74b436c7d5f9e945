"""A user's mistake: one line that names the file or flag and the remedy, and an exit code."""

import pytest
from fairseq import tasks
from fairseq_flags import training_config
from toy_language_model import write_data

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.trainer import VaswaniTrainer
from vaswani_plugin.files.programs import LONGEST_MESSAGE, message_line
from vaswani_plugin.model.families import ELSEWHERE

TRANSLATION = ("--task", "vaswani_translation", "--arch")
DEBUG = (*TRANSLATION, "vaswani_debug")
TINY = ("--arch", "vaswani_debug", "--max-tokens", "200", "--cpu", "--max-update", "1")
BEST = ("--maximize-best-checkpoint-metric", "--best-checkpoint-metric")
LSTM = (*TRANSLATION, "vaswani_attention_lstm")
LANGUAGE = ("--task", "vaswani_language_modeling", "--arch")
OF_ANCESTORS = [
    ((*LSTM, "--attention", "none", "--input-feeding"), "--input-feeding feeds attention back"),
    ((*LSTM, "--d-model", "33"), "--d-model 33: must be even"),
    ((*LANGUAGE, "vaswani_lm_lstm", "--layers", "0"), "--layers 0: must be at least 1"),
]


@pytest.fixture(scope="module")
def text_data_bin(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("text"))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((*DEBUG, "--heads", "3"), "--heads 3 does not divide --d-model 32; choose heads that"),
        ((*DEBUG, "--bf16", "--amp"), "small updates would be lost"),
        ((*DEBUG, "--fp16", "--cpu"), "--fp16 needs a GPU: give --amp or --bf16"),
        ((*DEBUG, "--store-ema"), "--store-ema moves shared weights once a name"),
        ((*DEBUG, "--eval-bleu-args", '{"beem": 1}'), "beem is no option of fairseq-generate"),
        ((*DEBUG, "--best-checkpoint-metric", "bleu"), "bleu would keep the worst: add --max"),
        ((*DEBUG, *BEST, "chrf"), "metric chrf: validation has none: give --eval-bleu"),
        ((*DEBUG, *BEST, "accuracy"), "validation has none: give --report-accuracy"),
        ((*LANGUAGE, "vaswani_lm_debug", *BEST, "bleu"), "has none: take loss, nll_loss or ppl"),
        ((*DEBUG, "--next-word"), "--next-word is for --task vaswani_parsing"),
        ((*DEBUG, "--heads", "0"), "--heads 0: must be at least 1"),
        ((*DEBUG, "--d-model", "33", "--heads", "3"), "--d-model 33: must be even"),
        ((*DEBUG, "--attention-window", "-3"), "--attention-window -3: must be a number from 0"),
        ((*DEBUG, "--dropout", "1"), "--dropout 1.0: must be from 0 to below 1"),
        ((*DEBUG, "--warmup-updates", "-5"), "--warmup-updates -5: must be a number from 0"),
        ((*DEBUG, "--lr-factor", "nan"), "--lr-factor nan: must be a number above 0"),
        ((*DEBUG, "--label-smoothing", "1"), "--label-smoothing: label smoothing is 1.0; it must"),
        ((*DEBUG, "--real-tokens", "-7"), "--real-tokens -7: must be a number from 0"),
        ((*LANGUAGE, "vaswani_lm_debug", "--d-k", "0"), "--d-k 0: must be at least 1"),
        *(OF_ANCESTORS if ELSEWHERE else []),
    ],
    ids=str,
)
def test_a_flag_that_makes_no_training(toy_data_bin, text_data_bin, flags, message):
    cfg = training_config(*flags).copy()
    cfg.task.data = str(toy_data_bin if TRANSLATION[1] in flags else text_data_bin)
    with pytest.raises(UserError, match=message):
        task = tasks.setup_task(cfg.task)
        VaswaniTrainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))


def test_a_message_is_one_printable_line():
    text = "a\x1b]0;title\x07b\nc\u2028d\udc80e\u202ef ä\U0001f600"
    shown = message_line(text)
    assert shown == r"a\x1b]0;title\x07b\nc\u2028d\udc80e\u202ef ä" + "\U0001f600"
    text = "".join(chr(0x4E00 + n) for n in range(5000))
    start, end = message_line(text).split(" ... ")
    assert text.startswith(start) and text.endswith(end)
    assert len(start) + len(end) == LONGEST_MESSAGE and len(end) == 200
    longest = text[:LONGEST_MESSAGE]
    assert message_line(longest) == longest


def test_sentences_that_are_too_long_for_the_model(run_fairseq, toy_data_bin, tmp_path):
    """Those of the validation set; training itself leaves long ones out, with a line."""
    flags = (*TINY, "--max-source-positions", 4, "--save-dir", tmp_path / "save")
    run = run_fairseq("train", toy_data_bin, *flags)
    assert run.returncode == 1 and "Traceback" not in run.stdout
    assert run.stderr.startswith("error: ") and run.stderr.count("\n") == 1
    assert "Size of sample" in run.stderr and "max_positions=(4, " in run.stderr
    assert "--skip-invalid-size-inputs-valid-test" in run.stderr
