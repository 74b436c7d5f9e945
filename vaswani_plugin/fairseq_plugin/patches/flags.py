"""What fairseq makes of a command line: values that it drops, and values that it can't use."""

import argparse
import ast
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable
from typing import Any

from fairseq import options
from fairseq.hub_utils import GeneratorHubInterface

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.defaults import task_of
from vaswani_plugin.fairseq_plugin.patches._patching import is_affected_version, patch

Step = Callable[[argparse.ArgumentParser, list[str], argparse.Namespace | None], None]
"""Of the command's parser, its arguments, and what it made of them (None before it parses)."""

BEFORE: list[Step] = []
AFTER: list[Step] = []
"""Called in this order when a command line of fairseq is parsed."""


def _when_parsing(steps: list[Step], step: Step) -> None:
    """Add a step, once, however often it is given."""
    if step not in steps:
        steps.append(step)
    patch(options, "parse_args_and_arch")(_parse)


def _parse(
    original: Callable,
    parser: argparse.ArgumentParser,
    input_args: list[str] | None = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    arguments = sys.argv[1:] if input_args is None else input_args
    for step in BEFORE:
        step(parser, arguments, None)
    parsed = original(parser, input_args, *args, **kwargs)
    for step in AFTER:
        step(parser, arguments, parsed[0] if isinstance(parsed, tuple) else parsed)
    return parsed


def _knows(parser: argparse.ArgumentParser, flag: str) -> bool:
    return flag in parser._option_string_actions  # argparse lists its options nowhere else


def choose_our_task() -> None:
    """``--arch vaswani_base --real-tokens 3125`` ends in "unrecognized arguments: --real-tokens".

    The flags of our tasks are unknown unless ``--task`` is given; fairseq's default is its own
    translation task. Now the task of an architecture of ours is the default in fairseq-train.

    Upstream: none known.
    Versions: any.
    """
    _when_parsing(BEFORE, _set_default_task)


def _set_default_task(parser: argparse.ArgumentParser, arguments: list[str], _parsed: Any) -> None:
    if _knows(parser, "--arch") and _knows(parser, "--restore-file"):
        probe = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        probe.add_argument("--arch", "-a", default="")
        task = task_of(probe.parse_known_args(arguments)[0].arch)
        if task is not None:
            parser.set_defaults(task=task)


def train_in_bf16_without_xla() -> None:
    """``--bf16`` fails with "'NoneType' object has no attribute 'xla_device'".

    fairseq assumes that only TPUs have bfloat16, and switches to a TPU. CPUs and GPUs have it, too.
    Now the run stays on its device unless torch_xla is installed or ``--tpu`` is given.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    if importlib.util.find_spec("torch_xla") is None and is_affected_version():
        _when_parsing(AFTER, _stay_on_device)


def _stay_on_device(_parser: Any, arguments: list[str], parsed: argparse.Namespace) -> None:
    if getattr(parsed, "bf16", False) and "--tpu" not in arguments:
        parsed.tpu = False


def refuse_overrides_that_are_no_dictionary() -> None:
    """``--model-overrides "{beam: 4}"`` ends in a traceback of Python's parser.

    So do ``--optimizer-overrides`` and ``--eval-bleu-args``. fairseq-eval-lm and fairseq-validate
    even run the text.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    _when_parsing(AFTER, _check_overrides)


def _check_overrides(_parser: Any, _arguments: Any, parsed: argparse.Namespace) -> None:
    for name in ("model_overrides", "optimizer_overrides"):
        text = getattr(parsed, name, None) or "{}"
        try:
            found = ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise UserError(
                f"--{name.replace('_', '-')} {text!r}: no dictionary of Python; write it as"
                " \"{'name': value}\", words in quotes"
            )
    for name in ("eval_bleu_args", "eval_bleu_detok_args"):
        text = getattr(parsed, name, None) or "{}"
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise UserError(
                f"--{name.replace('_', '-')} {text!r}: no dictionary in JSON; write it as"
                " '{\"name\": value}'"
            )


def translate_the_given_shard() -> None:
    """``fairseq-generate --num-shards 2 --shard-id 0`` translates everything, as does shard 1.

    fairseq takes the number of workers and the worker's number in place of the flags. The commands
    that divide their work otherwise, or not at all, now refuse the flags; fairseq-eval-lm has them.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    if is_affected_version():
        _when_parsing(AFTER, _take_shard)


def _take_shard(
    parser: argparse.ArgumentParser, _arguments: Any, parsed: argparse.Namespace
) -> None:
    count, number = getattr(parsed, "num_shards", 1), getattr(parsed, "shard_id", 0)
    if (count, number) == (1, 0) or _knows(parser, "--context-window"):
        return
    if not _knows(parser, "--beam") or _knows(parser, "--buffer-size"):
        raise UserError("--num-shards, --shard-id: for fairseq-generate only; leave them out")
    if not 0 <= number < count:
        raise UserError(f"--shard-id {number}: with --num-shards {count} it is 0 to {count - 1}")
    parsed.distributed_world_size, parsed.distributed_rank = count, number


def refuse_soft_alignments_where_they_crash() -> None:
    """``fairseq-interactive --print-alignment soft`` ends in "too many values to unpack".

    It prints pairs of positions only, as the hub interface does when it is verbose.
    fairseq-generate prints the probabilities.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    _when_parsing(AFTER, _check_alignment)

    @patch(GeneratorHubInterface, "generate")
    def generate(
        original: Callable, self: GeneratorHubInterface, *args: Any, **kwargs: Any
    ) -> list:
        given = inspect.signature(original).bind(self, *args, **kwargs).arguments
        now = given.get("kwargs", {}).get("print_alignment", self.cfg.generation.print_alignment)
        if given.get("verbose") and str(now) == "soft":
            raise UserError("print_alignment='soft': not with verbose=True, which prints hard ones")
        return original(self, *args, **kwargs)


def _check_alignment(
    parser: argparse.ArgumentParser, _arguments: Any, parsed: argparse.Namespace
) -> None:
    if getattr(parsed, "print_alignment", None) == "soft" and _knows(parser, "--buffer-size"):
        raise UserError(
            "--print-alignment soft: fairseq-interactive prints hard ones only; use"
            " fairseq-generate, or leave out 'soft'"
        )
