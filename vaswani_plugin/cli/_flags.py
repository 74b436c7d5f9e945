"""Flags that several commands have, and the types of their values."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def count(text: str) -> int:
    """A number from 1 on.

    Raises:
        argparse.ArgumentTypeError: it is below 1.
        ValueError: it is no number.
    """
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value}: must be at least 1")
    return value


def natural(text: str) -> int:
    """A number from 0 on.

    Raises:
        argparse.ArgumentTypeError: it is below 0.
        ValueError: it is no number.
    """
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value}: must be at least 0")
    return value


def share(text: str) -> float:
    """A part of a whole.

    Raises:
        argparse.ArgumentTypeError: it is not above 0, or above 1.
        ValueError: it is no number.
    """
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{value}: must be above 0 and at most 1")
    return value


def not_negative(text: str) -> float:
    """A number from 0 on.

    Raises:
        argparse.ArgumentTypeError: it is below 0, or infinite.
        ValueError: it is no number.
    """
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: must be a number from 0 on")
    return value


def add_processor(parser: argparse.ArgumentParser) -> None:
    """Add --cpu and --threads."""
    parser.add_argument("--cpu", action="store_true", help="leave a GPU alone")
    parser.add_argument("--threads", type=count, metavar="N", help="of the CPU (PyTorch's choice)")


def add_precision(parser: argparse.ArgumentParser) -> None:
    """Add --fp16 and --bf16."""
    precision = parser.add_mutually_exclusive_group()
    precision.add_argument("--fp16", action="store_true", help="half precision (GPU only)")
    precision.add_argument("--bf16", action="store_true", help="bfloat16 (GPU only)")


def chosen_dtype(args: argparse.Namespace, device: torch.device) -> torch.dtype | None:
    """The dtype that --fp16 or --bf16 asks for; None: the model's own.

    Raises:
        ValueError: they are given for a CPU.
    """
    import torch

    if (args.fp16 or args.bf16) and device.type != "cuda":
        flag = "--fp16" if args.fp16 else "--bf16"
        raise ValueError(f"{flag} is for a GPU; leave it out on the CPU")
    return torch.float16 if args.fp16 else torch.bfloat16 if args.bf16 else None


def add_batch_tokens(
    parser: argparse.ArgumentParser, default: int, what: str, name: str = "--batch-tokens"
) -> None:
    """Add --batch-tokens, the size of a batch; `what` begins its help: which tokens."""
    parser.add_argument(
        name,
        type=count,
        default=default,
        metavar="N",
        help=f"{what} at once, padding included (default: %(default)s)",
    )


def add_length_penalty(parser: argparse.ArgumentParser, default: float, where: str = "") -> None:
    """Add --lenpen; `where` begins its help if the flag doesn't always have an effect."""
    parser.add_argument(
        "--lenpen",
        type=float,
        default=default,
        metavar="ALPHA",
        help=f"{where}exponent of the length penalty ((5 + |Y|)/6) (default: %(default)s)",
    )


def processor(args: argparse.Namespace) -> torch.device:
    """The device to compute on: a GPU if there is one, unless --cpu; sets PyTorch's threads."""
    import torch  # not every command with these flags needs it

    if args.threads:
        torch.set_num_threads(args.threads)
    return torch.device("cuda" if torch.cuda.is_available() and not args.cpu else "cpu")
