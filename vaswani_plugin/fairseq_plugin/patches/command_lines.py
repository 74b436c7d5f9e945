"""fairseq's commands: their flags completed; a mistake ends in one line, warnings are silenced."""

import argparse
import importlib.util
import logging
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import fairseq
import torch
from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY

from vaswani_plugin.errors import UserError, message_line, wants_traceback
from vaswani_plugin.fairseq_plugin.defaults import CLIPPING, task_of, values_of
from vaswani_plugin.fairseq_plugin.patches._patching import patch

FAIRSEQ = Path(fairseq.__file__).resolve().parent
COMMANDS = FAIRSEQ.with_name("fairseq_cli")


def is_users_error(error: BaseException) -> bool:
    """Whether `error` reports a mistake that the user can correct.

    This is true for a `UserError`, and for these errors if fairseq itself raised them: an `OSError`
    ("Model file not found: ..."), an `ImportError` ("Please install ..."), an assertion or a
    `ValueError` that names a flag ("--finetune-from-model x does not exist"), or a bare `Exception`
    ("Size of sample #9 is invalid ..."), which is fairseq's usual error for users, unless it hides
    another error.
    """
    if isinstance(error, UserError):
        return True
    traceback = error.__traceback__
    if traceback is None:
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    origin = Path(traceback.tb_frame.f_code.co_filename).resolve()
    addresses_users = type(error) is Exception and error.__context__ is None
    addresses_users |= type(error) is ImportError  # a missing module is another class
    addresses_users |= isinstance(error, (AssertionError, ValueError)) and "--" in str(error)
    is_fairseqs = origin.is_relative_to(FAIRSEQ) or origin.is_relative_to(COMMANDS)
    return is_fairseqs and (isinstance(error, OSError) or addresses_users)


def one_line(error: BaseException) -> str:
    """The text ``error: `` and the error's message without line breaks."""
    return message_line("error: " + " ".join(str(error).split()))


def is_fairseq_command(argv0: str) -> bool:
    """Whether a process with this ``sys.argv[0]`` is fairseq's: ``fairseq-train`` or a module."""
    program = Path(argv0)
    return program.name.startswith("fairseq-") or program.parent.name == "fairseq_cli"


def print_users_errors_in_one_line() -> None:
    """A mistyped path ends in forty lines of traceback.

    The patch replaces Python's hook for uncaught errors, in fairseq's own commands only; a program
    that imports the plugin keeps its hook. With ``VASWANI_TRACEBACK=1`` every error keeps its
    traceback.
    """
    if not is_fairseq_command(sys.argv[0]) or hasattr(sys.excepthook, "patched_by"):
        return
    previous = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        if wants_traceback() or not is_users_error(error):
            previous(kind, error, traceback)
            return
        sys.stdout.flush()
        print(one_line(error), file=sys.stderr)

    hook.patched_by = __name__
    sys.excepthook = hook


KNOWN_WARNINGS = (
    # fairseq still calls hydra as of version 1.0
    r"hydra\.experimental\.initialize\(\) is no longer experimental",
    r"\s*The version_base parameter is not specified",
    r"hydra\.experimental\.compose\(\) is no longer experimental",
    r"In '.*': Usage of deprecated keyword in package header '# @package _group_'",
    r"\s*'.*' is validated against ConfigStore schema with the same name",
    r"\s*The strict flag in the compose API is deprecated",
    # FairseqTask.train_step, the stock MultiheadAttention, and pytorch_ddp
    r"`torch\.cuda\.amp\.autocast\(args\.\.\.\)` is deprecated",
    r"Support for mismatched .*key_padding_mask and attn_mask is deprecated",
    r"`broadcast_buffers` is deprecated",
)
PIN_MEMORY = r"'pin_memory' argument is set as true but no accelerator is found"


def silence_known_warnings() -> None:
    """Every start prints ten warnings about which users can do nothing.

    ``pin_memory`` is silenced only without a GPU; with one, the warning matters.
    """
    gpu = torch.cuda.is_available()
    for message in KNOWN_WARNINGS if gpu else (*KNOWN_WARNINGS, PIN_MEMORY):
        warnings.filterwarnings("ignore", message=message)


def set_log_level_to_info() -> None:
    """fairseq-generate logs every library's DEBUG lines.

    ``wav2vec2_classification`` sets the root logger to DEBUG when it is imported, before the
    commands can set it to ``$LOGLEVEL`` or INFO. Only fairseq's own commands are changed.
    """
    root = logging.getLogger()
    wanted = os.environ.get("LOGLEVEL", "INFO").upper()
    if is_fairseq_command(sys.argv[0]) and root.level == logging.DEBUG and wanted != "DEBUG":
        root.setLevel(wanted)


def complete_command_lines() -> None:
    """``--arch vaswani_base --real-tokens 3125`` has "unrecognized arguments"; ``--bf16`` fails.

    The flags of our tasks are unknown unless ``--task`` is given; fairseq's default is its own
    translation task. Now the task of an architecture of ours is the default in fairseq-train, and
    so is the limit of the gradient's norm.

    With ``--bf16`` fairseq assumes a TPU, and ends in "'NoneType' object has no attribute
    'xla_device'". CPUs and GPUs have bfloat16, too: now the run stays on its device unless
    torch_xla is installed or ``--tpu`` is given.

    fairseq-validate without ``--task`` ends in "KeyError: None", although it takes the task from
    the checkpoint. Now the default is that of the other commands.

    ``--arch vaswani_base --help`` ends before the flags of the model and its task are known; now it
    lists them.
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
        flags = parser._option_string_actions.keys()  # argparse lists them nowhere else
        if "--task" in flags and parser.get_default("task") is None:
            parser.set_defaults(task="translation")
        if {"--arch", "--restore-file"} <= flags:
            probe = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
            probe.add_argument("--arch", "-a", default="")
            arch = probe.parse_known_args(arguments)[0].arch
            task = task_of(arch)
            if task is not None:
                parser.set_defaults(task=task)
                if norm := values_of(task, arch)[CLIPPING]:  # the recurrent models'
                    parser.set_defaults(clip_norm=norm)
            asked = [argument for argument in arguments if argument in ("-h", "--help")]
            if asked and arch in ARCH_MODEL_REGISTRY:
                rest = [argument for argument in arguments if argument not in asked] + ["DATA"]
                original(parser, rest, *args, **kwargs | {"parse_known": True})
                parser.parse_args(asked)
        parsed = original(parser, input_args, *args, **kwargs)
        found = parsed[0] if isinstance(parsed, tuple) else parsed
        has_tpu = "--tpu" in arguments or importlib.util.find_spec("torch_xla") is not None
        if getattr(found, "bf16", False) and not has_tpu:
            found.tpu = False
        return parsed
