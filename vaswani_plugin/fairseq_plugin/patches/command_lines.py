"""What fairseq makes of a command line, completed."""

import argparse
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from fairseq import options

from vaswani_plugin.fairseq_plugin.defaults import task_of
from vaswani_plugin.fairseq_plugin.patches._patching import patch


def complete_command_lines() -> None:
    """``--arch vaswani_base --real-tokens 3125`` has "unrecognized arguments"; ``--bf16`` fails.

    The flags of our tasks are unknown unless ``--task`` is given; fairseq's default is its own
    translation task. Now the task of an architecture of ours is the default in fairseq-train.

    With ``--bf16`` fairseq assumes a TPU, and ends in "'NoneType' object has no attribute
    'xla_device'". CPUs and GPUs have bfloat16, too: now the run stays on its device unless
    torch_xla is installed or ``--tpu`` is given.
    """

    @patch(options, "parse_args_and_arch")
    def parse_args_and_arch(
        original: Callable,
        parser: argparse.ArgumentParser,
        input_args: list[str] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        arguments = sys.argv[1:] if input_args is None else input_args
        # argparse lists its options nowhere else
        if {"--arch", "--restore-file"} <= parser._option_string_actions.keys():
            probe = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
            probe.add_argument("--arch", "-a", default="")
            task = task_of(probe.parse_known_args(arguments)[0].arch)
            if task is not None:
                parser.set_defaults(task=task)
        parsed = original(parser, input_args, *args, **kwargs)
        found = parsed[0] if isinstance(parsed, tuple) else parsed
        has_tpu = "--tpu" in arguments or importlib.util.find_spec("torch_xla") is not None
        if getattr(found, "bf16", False) and not has_tpu:
            found.tpu = False
        return parsed
