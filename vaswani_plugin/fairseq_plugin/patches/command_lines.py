"""fairseq's commands: their flags completed; a mistake ends in one line, warnings are silenced."""

import argparse
import fileinput
import logging
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fairseq
import torch
from fairseq import options, utils
from fairseq.data.data_utils import infer_language_pair
from fairseq.models import ARCH_MODEL_REGISTRY
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from omegaconf.errors import OmegaConfBaseException

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.defaults import task_of, values_of
from vaswani_plugin.fairseq_plugin.patches._patching import patch
from vaswani_plugin.files.programs import one_line, wants_traceback
from vaswani_plugin.model.families import CLIPPING, LANGUAGE_MODELING

FAIRSEQ = Path(fairseq.__file__).resolve().parent
COMMANDS = FAIRSEQ.with_name("fairseq_cli")
FILEINPUT = Path(fileinput.__file__).resolve()  # fairseq-interactive reads by it
FOR_USERS = re.compile(r"--|same number of examples")  # a flag, or sides of a text
LOST_WORKER = re.compile(r"gloo.*(closed by peer|[Tt]imed out|reset by peer)", re.DOTALL)
"""PyTorch's words where another worker has ended."""


def is_users_error(error: BaseException) -> bool:
    """Whether `error` is a `UserError`, another worker's end, or fairseq's own for its users."""
    ours = (UserError, OmegaConfBaseException, HydraException)  # Hydra's are of a value
    if isinstance(error, ours) or LOST_WORKER.search(str(error)):
        return True
    if error.__traceback__ is None:
        return False
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    origin = Path(frame.f_code.co_filename).resolve()
    for_users = bool(
        isinstance(error, OSError)  # "Model file not found: ..."
        or type(error) in (ImportError, Exception)  # "Please install ...", "Size of sample #9 ..."
        or (isinstance(error, (AssertionError, ValueError)) and FOR_USERS.search(str(error)))
    )
    return for_users and not {FAIRSEQ, COMMANDS, FILEINPUT}.isdisjoint((origin, *origin.parents))


def is_printed(error: BaseException) -> bool:
    """Print a user's error to stderr, in one line; False if its traceback is to be shown."""
    if wants_traceback() or not is_users_error(error):
        return False
    sys.stdout.flush()
    is_lost = not isinstance(error, UserError) and LOST_WORKER.search(str(error))
    cause = "another worker has ended, and says why; the same command goes on: " if is_lost else ""
    print(f"error: {cause}{one_line(error)}", file=sys.stderr)
    return True


def is_fairseq_command(argv0: str) -> bool:
    """Whether a process with this ``sys.argv[0]`` is fairseq's: ``fairseq-train`` or a module."""
    program = Path(argv0)
    return program.name.startswith("fairseq-") or program.parent.name == "fairseq_cli"


def print_users_errors_in_one_line() -> None:
    """A mistyped path ends in forty lines of traceback.

    The patch replaces Python's hook for uncaught errors, in fairseq's own commands only.
    """
    if not is_fairseq_command(sys.argv[0]) or hasattr(sys.excepthook, "patched_by"):
        return
    previous = sys.excepthook

    def hook(error_type: type[BaseException], error: BaseException, trace: Any) -> None:
        if not is_printed(error):
            previous(error_type, error, trace)

    hook.__dict__["patched_by"] = __name__
    sys.excepthook = hook


class WithPlugin(Callback):
    """Loads the plugin before fairseq-hydra-train starts workers; `hydra.callbacks` names it."""

    def on_run_end(self, job_return: Any, **unused: Any) -> None:
        """Print a user's error as fairseq-train does."""
        try:
            job_return.return_value  # noqa: B018 -- raises what the job has raised
        except Exception as error:
            if is_printed(error):
                raise SystemExit(1) from None


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


def silence_known_warnings() -> None:
    """Every start prints ten warnings about which users can do nothing.

    ``pin_memory`` is silenced only without a GPU; with one, the warning matters.
    """
    pin = r"'pin_memory' argument is set as true but no accelerator is found"
    for message in (*KNOWN_WARNINGS, *([] if torch.cuda.is_available() else [pin])):
        warnings.filterwarnings("ignore", message=message)


def return_log_to_generate() -> None:
    """fairseq-generate's output lacks its log, which has every library's DEBUG lines.

    A model of fairseq's sets up the root logger first. `vaswani bleu` counts sentences by the log.
    """
    program = Path(sys.argv[0])
    if is_fairseq_command(sys.argv[0]) and program.stem.endswith("generate"):
        logging.getLogger().handlers.clear()


def replace_unknown_words_of_pairs() -> None:
    """``--replace-unk`` fails with "list indices must be integers or slices, not tuple".

    It takes pairs of a source and a target word for a list of source words.
    """

    @patch(utils, "replace_unk")
    def replace_unk(original: Callable, hypothesis: str, source: str, pairs: list, *rest) -> str:
        if pairs and len(pairs) != len(hypothesis.split()):
            raise UserError("--replace-unk takes whole words: drop --remove-bpe")
        sources = {target: word for word, target in pairs} or [-1] * len(hypothesis.split())
        return original(hypothesis, source, sources, *rest)


def complete_command_lines() -> None:
    """``--arch vaswani_base --real-tokens 3125`` has "unrecognized arguments"; ``--bf16`` fails.

    fairseq-train's default is fairseq's translation. Now it is the architecture's task, the limit
    of the gradient's norm the model's, and ``--help`` lists the flags of both. fairseq-eval-lm's
    default is our task, too: fairseq's leaves out long samples, maybe all, without an error.

    With ``--bf16`` fairseq assumes a TPU. fairseq-validate without ``--task`` ends in "KeyError:
    None", although it takes the task from the checkpoint; ``--tokenizer moses`` without languages
    ends in one of Hydra's, fairseq-train without ``--arch`` in a nameless RuntimeError.
    """

    @patch(options, "parse_args_and_arch")
    def parse_args_and_arch(original: Callable, parser, input_args=None, *args, **kwargs) -> Any:
        arguments = sys.argv[1:] if input_args is None else input_args
        names = parser._option_string_actions.keys()  # argparse lists them nowhere else
        if "--task" in names and parser.get_default("task") is None:
            parser.set_defaults(task="translation")
        if parser.get_default("task") == "language_modeling":
            parser.set_defaults(task=LANGUAGE_MODELING)
        if {"--arch", "--restore-file"} <= names:
            probe = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
            probe.add_argument("--arch", "-a", default="")
            arch = probe.parse_known_args(arguments)[0].arch
            if (task := task_of(arch)) is not None:
                parser.set_defaults(task=task)
                if norm := values_of(task, arch)[CLIPPING]:  # the recurrent models'
                    parser.set_defaults(clip_norm=norm)
            rest = [argument for argument in arguments if argument not in ("-h", "--help")]
            if len(rest) < len(arguments) and arch in ARCH_MODEL_REGISTRY:
                original(parser, [*rest, "DATA"], *args, **kwargs | {"parse_known": True})
                parser.parse_args(["--help"])
            if not (arch or parser.get_default("arch") or len(rest) < len(arguments)):
                raise UserError("--arch: give an architecture, such as vaswani_base")
        parsed = original(parser, input_args, *args, **kwargs)
        flags = parsed[0] if isinstance(parsed, tuple) else parsed
        languages = [getattr(flags, f"{side}_lang", None) for side in ("source", "target")]
        if getattr(flags, "tokenizer", None) == "moses" and None in languages:
            # fairseq hands these to its tokenizer before the task has read them off the data
            flags.source_lang, flags.target_lang = infer_language_pair(flags.data.split(":")[0])
            if flags.source_lang is None:
                raise UserError("--tokenizer moses: give --source-lang and --target-lang")
        if getattr(flags, "replace_unk", None) == "@@ ":  # what fairseq takes for a file's name
            raise UserError("--replace-unk: give a file of word pairs, or '' to copy the source")
        if "--buffer-size" in names and flags.print_alignment == "soft":  # fairseq-interactive
            raise UserError("--print-alignment soft: only fairseq-generate prints it; give hard")
        if "--beam" in names and "--buffer-size" not in names:  # fairseq-generate
            if flags.constraints is not None:
                raise UserError("--constraints: only fairseq-interactive reads them, in each line")
            if max(flags.num_shards, flags.distributed_world_size) > 1:
                raise UserError(
                    "--num-shards, --distributed-world-size: fairseq-generate takes no shards; "
                    "split the text (`split -n l/2`), and give each part to a command of its own"
                )
        if getattr(flags, "num_batch_buckets", 0):
            raise UserError("--num-batch-buckets is for TPUs, which need compiled code; drop it")
        if getattr(flags, "bf16", False) and "--tpu" not in arguments:
            flags.tpu = False
        return parsed
