"""Types of flags' values. argparse prints their errors as one line that names the flag."""

import argparse
import math


def positive_int(text: str) -> int:
    """A whole number of at least 1.

    Raises:
        argparse.ArgumentTypeError: the text is something else.
    """
    return _whole_number(text, 1)


def non_negative_int(text: str) -> int:
    """A whole number of at least 0.

    Raises:
        argparse.ArgumentTypeError: the text is something else.
    """
    return _whole_number(text, 0)


def probability(text: str) -> float:
    """A number above 0 and at most 1.

    Raises:
        argparse.ArgumentTypeError: the text is something else.
    """
    value = _number(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text}: must be above 0 and at most 1")
    return value


def non_negative_float(text: str) -> float:
    """A finite number of at least 0.

    Raises:
        argparse.ArgumentTypeError: the text is something else.
    """
    value = _number(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text}: must be at least 0")
    return value


def seconds(text: str) -> float:
    """A finite duration above 0, in seconds.

    Raises:
        argparse.ArgumentTypeError: the text is something else.
    """
    value = _number(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text}: must be a number of seconds above 0")
    return value


def _whole_number(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number") from None
    if value < least:
        raise argparse.ArgumentTypeError(f"{text}: must be at least {least}")
    return value


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: must be a number") from None
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text}: must be a finite number")
    return value
