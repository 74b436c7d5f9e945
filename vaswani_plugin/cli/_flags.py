"""Flags that several commands share."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vaswani_plugin.cli._types import finite_float, positive_int

if TYPE_CHECKING:
    import torch

Parser = argparse.ArgumentParser


def add_model(parser: Parser, help_text: str = "the bundle: a folder model/ of a recipe") -> None:
    """Add --model, a bundle, which must be given."""
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help=help_text)


def add_inputs(parser: Parser, line: str) -> None:
    """Add the input files; `line` says what a line of them is, such as "a sentence"."""
    what = f"text files with {line} per line, plain or .gz; - is standard input (default: -)"
    parser.add_argument("inputs", nargs="*", metavar="FILE", help=what)


def add_output(parser: Parser) -> None:
    """Add --output, a file for the results."""
    what = "write the results to this file, plain or .gz (default: standard output)"
    parser.add_argument("--output", type=Path, metavar="FILE", help=what)


def add_format(parser: Parser, json: str = "") -> None:
    """Add --format; `json` says what the JSON output holds, if its help should."""
    what = "output format (default: text)" + (f"; {json}" if json else "")
    parser.add_argument("--format", choices=["text", "json"], default="text", help=what)


def add_beam(parser: Parser, default: int) -> None:
    """Add --beam; `default` is used if the bundle names no beam size."""
    what = f"beam size (default: the bundle's; {default} if it names none)"
    parser.add_argument("--beam", type=positive_int, metavar="N", help=what)


def add_length_penalty(parser: Parser, default: float, condition: str = "") -> None:
    """Add --lenpen; `condition` says when the flag has an effect, such as "with --beam: "."""
    what = f"{condition}exponent alpha of the length penalty ((5 + length) / 6)^alpha"
    what += " (default: %(default)s)"
    parser.add_argument("--lenpen", type=finite_float, default=default, metavar="ALPHA", help=what)


def add_batch_tokens(
    parser: Parser, default: int, tokens: str, name: str = "--batch-tokens"
) -> None:
    """Add --batch-tokens, the size of a batch; `tokens` says which tokens are counted."""
    what = f"most {tokens} in a batch, padding included (default: %(default)s)"
    parser.add_argument(name, type=positive_int, default=default, metavar="N", help=what)


def add_buffer(parser: Parser, default: int) -> None:
    """Add --buffer.

    Args:
        parser: of the command.
        default: lines to read before the first batch, if the input is not typed. More lines make
            better batches; fewer show results sooner.
    """
    what = "read N lines, then process them in batches of similar length "
    what += f"(default: {default}; 1 for lines typed at a terminal)"
    parser.add_argument("--buffer", type=positive_int, metavar="N", help=what)
    parser.set_defaults(default_buffer=default)


def buffer_size(args: argparse.Namespace, inputs: list[str]) -> int:
    """The number of lines to read before any is answered: --buffer, or its default."""
    is_typed = inputs == ["-"] and sys.stdin.isatty()
    return args.buffer or (1 if is_typed else args.default_buffer)


def add_device(parser: Parser) -> None:
    """Add --cpu and --threads."""
    parser.add_argument(
        "--cpu", action="store_true", help="compute on the CPU even if a GPU exists"
    )
    what = "CPU threads (default: PyTorch's choice)"
    parser.add_argument("--threads", type=positive_int, metavar="N", help=what)


def chosen_device(args: argparse.Namespace) -> torch.device:
    """The device to compute on: a GPU if there is one, unless --cpu; sets PyTorch's threads."""
    import torch  # not every command with these flags needs it

    if args.threads:
        torch.set_num_threads(args.threads)
    return torch.device("cuda" if torch.cuda.is_available() and not args.cpu else "cpu")


def add_precision(parser: Parser) -> None:
    """Add --fp16 and --bf16."""
    bf16 = "compute in bfloat16 (GPU, or PyTorch on a CPU with AVX512_BF16 or AMX)"
    precision = parser.add_mutually_exclusive_group()
    precision.add_argument("--fp16", action="store_true", help="compute in float16 (GPU only)")
    precision.add_argument("--bf16", action="store_true", help=bf16)
