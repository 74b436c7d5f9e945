"""What the scripts of this folder share; a script imports it first.

Makes vaswani_plugin importable if it is not installed: Python adds the folder of a script to its
path, but not the parent folder. An installed plugin is used as it is.
"""

import argparse
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

if find_spec("vaswani_plugin") is None:
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from vaswani_plugin.errors import UserError  # noqa: E402
from vaswani_plugin.files import programs  # noqa: E402

SPLITS = ("train", "valid", "test")


class Flags(argparse.ArgumentParser):
    """A parser of flags whose --help shows a description as it is; numbers have a least value."""

    add = argparse.ArgumentParser.add_argument

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)
        self.least: dict[str, float] = {}

    def number(self, flag: str, default: float | None, text: str, least: float = 1) -> None:
        """Adds a number of the type of `least`."""
        self.least[self.add(flag, type=type(least), default=default, help=text).dest] = least

    def workers(self) -> None:
        """Adds --workers."""
        self.number("--workers", os.cpu_count() or 1, "processes (default: cores)")

    def streams(self) -> None:
        """Adds --input, --output and --workers of a text that becomes another, line by line."""
        self.add("--input", default="-", help="plain or .gz (default: standard input)")
        self.add("--output", default="-", help="plain or .gz (default: standard output)")
        self.workers()

    def parse_known_args(self, *arguments: Any) -> tuple[argparse.Namespace, list[str]]:
        """Refuses numbers below their least value; a flag that isn't given may be None."""
        args, rest = super().parse_known_args(*arguments)
        for name, least in self.least.items():
            value = getattr(args, name)
            if value is not None and not value >= least:  # also refuses nan
                raise UserError(f"--{name.replace('_', '-')} {value}: must be at least {least:g}")
        return args, rest


def run(main: Callable[[Flags], None], description: str | None) -> None:
    """Runs a script's `main` and exits; see `programs.exit_code`."""
    programs.run(lambda: main(Flags(description=description)))


def report(text: str, *outputs: str) -> None:
    """Prints a line for people, where no output is: one may be standard output."""
    print(text, file=sys.stderr if set(programs.STANDARD_OUTPUT) & set(outputs) else sys.stdout)
