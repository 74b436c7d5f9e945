"""Errors that users can correct themselves. They are printed as one line, without a traceback."""

import os
from importlib import import_module
from types import ModuleType

LONGEST_MESSAGE = 900
TRACEBACK_VARIABLE = "VASWANI_TRACEBACK"
EXIT_CODE_WHEN_PREEMPTED = 75
"""EX_TEMPFAIL of sysexits.h, "try again later"."""


class UserError(ValueError):
    """A mistake of the user; the message names the value and the remedy."""


def optional(module: str, packages: str) -> ModuleType:
    """Import an optional dependency; a `UserError` names the packages to install."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UserError(f"{module} is not installed ({error}): pip install {packages}") from error


def wants_traceback() -> bool:
    """Whether the user asked for tracebacks."""
    return os.environ.get(TRACEBACK_VARIABLE, "") not in ("", "0")


def message_line(text: str) -> str:
    """Formats a message as one short line; what could control the terminal is escaped."""
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    if len(line) > LONGEST_MESSAGE:
        line = f"{line[: LONGEST_MESSAGE - 200]} ... {line[-200:]}"
    return line


def one_line(error: BaseException) -> str:
    """Formats an error's message as one short line; that of an `OSError` names the file."""
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f"{error.filename}: "
        return message_line(place + error.strerror)
    return message_line(" ".join(str(error).split()) or type(error).__name__)
