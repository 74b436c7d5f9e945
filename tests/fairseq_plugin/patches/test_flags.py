"""Command lines of fairseq: what is dropped is taken, what can't be used is refused in a line."""

import pytest
from fairseq import options

import vaswani_plugin
from vaswani_plugin.errors import UserError

vaswani_plugin.register()

PARSERS = {
    "train": options.get_training_parser,
    "generate": options.get_generation_parser,
    "interactive": options.get_interactive_generation_parser,
    "eval-lm": options.get_eval_lm_parser,
    "validate": options.get_validation_parser,
}


def parse(command: str, *flags: str):
    task = () if command in ("train", "eval-lm") else ("--task", "vaswani_translation")
    arch = ("--arch", "vaswani_debug") if command == "train" else ("--path", "model.pt")
    parser = PARSERS[command]()
    return options.parse_args_and_arch(parser, ["data", *task, *arch, *flags])


@pytest.mark.parametrize("flags", [["--bf16"], ["--memory-efficient-bf16"], ["--bf16", "--tpu"]])
def test_bf16_asks_for_no_tpu(flags):
    args = parse("train", *flags)
    assert args.bf16 and args.tpu == ("--tpu" in flags)


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        *(("generate", "--model-overrides"), ("interactive", "--model-overrides")),
        *(("eval-lm", "--model-overrides"), ("validate", "--model-overrides")),
        ("train", "--optimizer-overrides"),
    ],
)
@pytest.mark.parametrize("text", ["{beam: 4}", "{", "[1]", "print(1)"])
def test_overrides_are_a_dictionary(command, flag, text):
    with pytest.raises(UserError, match=f"{flag} .*: no dictionary of Python; write it as"):
        parse(command, flag, text)
    parse(command, flag, "{'dropout': 0.5}")


@pytest.mark.parametrize("flag", ["--eval-bleu-args", "--eval-bleu-detok-args"])
def test_arguments_of_bleu_are_json(flag):
    with pytest.raises(UserError, match=f"{flag} .*: no dictionary in JSON"):
        parse("train", flag, "{beam: 4}")
    parse("train", flag, '{"beam": 4}')


def test_a_shard_is_that_of_its_flags():
    args = parse("generate", "--num-shards", "3", "--shard-id", "1")
    assert (args.distributed_world_size, args.distributed_rank) == (3, 1)
    assert parse("eval-lm", "--num-shards", "3", "--shard-id", "1").shard_id == 1
    for command in ("train", "interactive", "validate"):
        with pytest.raises(UserError, match="--num-shards, --shard-id: for fairseq-generate only"):
            parse(command, "--num-shards", "3")
    with pytest.raises(UserError, match="--shard-id 3: with --num-shards 3 it is 0 to 2"):
        parse("generate", "--num-shards", "3", "--shard-id", "3")


def test_soft_alignments_are_generates():
    assert parse("generate", "--print-alignment", "soft").print_alignment == "soft"
    assert parse("interactive", "--print-alignment").print_alignment == "hard"
    with pytest.raises(UserError, match="--print-alignment soft: fairseq-interactive prints hard"):
        parse("interactive", "--print-alignment", "soft")
