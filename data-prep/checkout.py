"""What the scripts of this folder share; a script imports it first.

Makes vaswani_plugin importable if it is not installed: Python adds the folder of a script to its
path, but not the parent folder. An installed plugin is used as it is.
"""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

if find_spec("vaswani_plugin") is None:
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from vaswani_plugin.errors import UserError  # noqa: E402
from vaswani_plugin.text.programs import run  # noqa: E402

__all__ = ["at_least", "parser", "report", "run"]


def parser(description: str | None) -> argparse.ArgumentParser:
    """Returns a parser whose --help shows a script's docstring as it is."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def report(text: str, *outputs: str) -> None:
    """Prints a line for people, where no output is: one may be standard output."""
    is_taken = {"-", "/dev/stdout", "/dev/fd/1"} & set(outputs)
    print(text, file=sys.stderr if is_taken else sys.stdout)


def at_least(args: argparse.Namespace, **least: int) -> None:
    """Refuses numbers below the least value of their flag; a flag that isn't given is None."""
    for name, lowest in least.items():
        value = getattr(args, name, None)
        if value is not None and not value >= lowest:  # also refuses nan
            raise UserError(f"--{name.replace('_', '-')} {value}: must be at least {lowest}")
