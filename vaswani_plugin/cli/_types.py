"""Types of flags' values. argparse prints their errors as one line that names the flag.

Each raises argparse.ArgumentTypeError for a text that is something else.
"""

import argparse
import math
from collections.abc import Callable
from typing import TypeVar

Number = TypeVar("Number", int, float)


def _checked(
    convert: Callable[[str], Number], kind: str, accepts: Callable[[Number], bool], rule: str
) -> Callable[[str], Number]:
    """A type of flags: `convert` reads a number of this kind, `accepts` checks the rule."""

    def read(text: str) -> Number:
        try:
            value = convert(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text}: must be {kind}") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise argparse.ArgumentTypeError(f"{text}: must be a finite number")
        if not accepts(value):
            raise argparse.ArgumentTypeError(f"{text}: must be {rule}")
        return value

    return read


positive_int = _checked(int, "a whole number", lambda n: n >= 1, "at least 1")
non_negative_int = _checked(int, "a whole number", lambda n: n >= 0, "at least 0")
finite_float = _checked(float, "a number", lambda x: True, "finite")
probability = _checked(float, "a number", lambda p: 0 < p <= 1, "above 0 and at most 1")
non_negative_float = _checked(float, "a number", lambda x: x >= 0, "at least 0")
seconds = _checked(float, "a number", lambda s: s > 0, "a number of seconds above 0")
