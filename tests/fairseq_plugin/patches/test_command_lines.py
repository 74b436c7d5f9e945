"""Command lines of fairseq: our task for our architectures, bfloat16 without a TPU."""

import pytest
from fairseq import options
from fairseq_flags import training_config

import vaswani_plugin

vaswani_plugin.register()


@pytest.mark.parametrize("flags", [["--bf16"], ["--memory-efficient-bf16"], ["--bf16", "--tpu"]])
def test_bf16_asks_for_no_tpu(flags):
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, ["data", "--arch", "vaswani_debug", *flags])
    assert args.bf16 and args.tpu == ("--tpu" in flags)


@pytest.mark.parametrize(
    ("flags", "task"),
    [
        (("--arch", "vaswani_base", "--real-tokens", "3125"), "vaswani_translation"),
        (("-a", "vaswani_attention_lstm"), "vaswani_translation"),
        (("--arch=vaswani_lm_tiny",), "vaswani_language_modeling"),
        (("--arch", "vaswani_lm_lstm_tiny"), "vaswani_language_modeling"),
        (("--arch", "vaswani_base", "--task", "translation"), "translation"),
        (("--arch", "transformer"), "translation"),
    ],
)
def test_our_architectures_are_trained_by_our_tasks(flags, task):
    assert training_config(*flags).task._name == task
