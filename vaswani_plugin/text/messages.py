"""Error messages of the commands."""

import os

LONGEST_MESSAGE = 900
TRACEBACK_VARIABLE = "VASWANI_TRACEBACK"


class InputError(ValueError):
    """An error that the user can fix; the message is one line with the place and the remedy."""


def wants_traceback() -> bool:
    """Whether the user asked for tracebacks."""
    return os.environ.get(TRACEBACK_VARIABLE, "") not in ("", "0")


def message_line(text: str) -> str:
    """Formats a message as one short line, without control sequences for the terminal.

    Unprintable characters are escaped as in Python's literals; the middle of a long text is left
    out.
    """
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    if len(line) > LONGEST_MESSAGE:
        line = f"{line[: LONGEST_MESSAGE - 200]} ... {line[-200:]}"
    return line
