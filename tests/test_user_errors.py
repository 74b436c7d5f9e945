"""What a flag causes in a module, which knows no flags, is still a user's error at the border."""

import pytest
from fairseq import tasks
from fairseq.optim import build_optimizer
from fairseq.optim.lr_scheduler import build_lr_scheduler
from fairseq_flags import training_config
from toy_language_model import write_data

from vaswani_plugin.errors import (
    LONGEST_MESSAGE,
    CheckpointError,
    UserError,
    message_line,
    value_errors_as_user_errors,
)
from vaswani_plugin.fairseq_plugin.training.trainer import refuse_what_cannot_train

TRANSLATION = ("--task", "vaswani_translation", "--arch")
DEBUG = (*TRANSLATION, "vaswani_debug")
HALVING = (*DEBUG, "--lr", "0.7", "--lr-scheduler", "vaswani_halving")
LSTM = (*TRANSLATION, "vaswani_attention_lstm")
LANGUAGE = ("--task", "vaswani_language_modeling", "--arch")


@pytest.fixture(scope="module")
def text_data_bin(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("text"))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((*DEBUG, "--d-ff", "0"), "--d-ff is 0"),
        (
            (*DEBUG, "--d-model", "33", "--heads", "3"),
            "--d-model is 33; sin",
        ),
        (
            (*LSTM, "--d-model", "33"),
            "--d-model 33 can't be halved",
        ),
        ((*LSTM, "--attention", "none", "--input-feeding"), "--input-feeding feeds attention back"),
        ((*DEBUG, "--label-smoothing", "1.5"), "label smoothing is 1.5"),
        ((*DEBUG, "--warmup-updates", "-1"), "warm-up is -1 updates"),
        ((*DEBUG, "--lr-factor", "-2"), "factor of the learning rate is -2"),
        ((*HALVING, "--constant-epochs", "nan"), "--constant-epochs is nan; it must be"),
        ((*HALVING, "--halving-epochs", "0"), "--halving-epochs is 0.0; it must be above 0"),
        ((*DEBUG, "--adam-eps=-1"), "epsilon value: -1.0"),
        ((*DEBUG, "--adam-eps", "inf"), "--adam-eps is inf; it must be a number from 0"),
        ((*DEBUG, "--weight-decay", "nan"), "weight_decay value: nan"),
        ((*DEBUG, "--adam-betas", "nonsense"), "--adam-betas .* is no pair of numbers like"),
        ((*DEBUG, "--adam-betas", "(0.9,0.98,0.99)"), "--adam-betas .* is no pair of numbers like"),
        ((*DEBUG, "--adam-betas", "(1.0,0.98)"), "beta parameter at index 0: 1.0"),
        ((*DEBUG, "--cpu", "--fp16"), "--fp16 is for GPUs; on a CPU give --amp or --bf16"),
        ((*DEBUG, "--bf16", "--amp"), "--bf16 and --amp: .*; leave out one of them"),
        ((*DEBUG, "--memory-efficient-bf16"), "no float32 copies of weights, .*; give --bf16"),
        ((*DEBUG, "--best-checkpoint-metric", "bleu"), "metric bleu needs --eval-bleu"),
        ((*DEBUG, "--next-word"), "--next-word is for --task vaswani_parsing"),
        ((*LANGUAGE, "vaswani_lm_one_layer", "--d-hidden", "0"), "--d-hidden is 0"),
        ((*LANGUAGE, "vaswani_lm_lstm", "--units", "0"), "--units is 0"),
        ((*LSTM, "--dropout", "1.5"), "--dropout is 1.5; .* below 1"),
        ((*LANGUAGE, "vaswani_lm_one_layer", "--dropout", "1"), "--dropout is 1.0; .* below 1"),
        ((*LANGUAGE, "vaswani_lm_lstm", "--weight-dropout", "1"), "--weight-dropout is 1.0;"),
        ((*LANGUAGE, "vaswani_lm_one_layer", "--d-model", "33"), "d_model is 33; sinusoidal"),
    ],
    ids=str,
)
def test_a_flag_that_makes_no_training(toy_data_bin, text_data_bin, flags, message):
    cfg = training_config(*flags).copy()
    cfg.task.data = str(toy_data_bin if TRANSLATION[1] in flags else text_data_bin)
    task = tasks.setup_task(cfg.task)
    with pytest.raises(UserError, match=message):
        refuse_what_cannot_train(cfg)
        model = task.build_model(cfg.model)
        task.build_criterion(cfg.criterion)
        optimizer = build_optimizer(cfg.optimizer, list(model.parameters()))
        build_lr_scheduler(cfg.lr_scheduler, optimizer)


@pytest.mark.parametrize(
    "flags", [("--bf16",), ("--eval-bleu", "--best-checkpoint-metric", "bleu"), ("--amp",)], ids=str
)
def test_flags_that_make_one(flags):
    refuse_what_cannot_train(training_config(*DEBUG, "--cpu", *flags))


def test_only_the_errors_of_values_are_converted():
    for error, expected in (
        (ValueError("d is 0"), UserError),
        (CheckpointError("broken"), CheckpointError),
        (KeyError("x"), KeyError),
    ):
        with pytest.raises(expected) as found, value_errors_as_user_errors():
            raise error
        assert found.type is expected and str(found.value) == str(error)


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
