"""What commands say to the people who use them when something is wrong."""

import os

LONGEST_MESSAGE = 900
TRACEBACK_VARIABLE = "VASWANI_TRACEBACK"


class InputError(ValueError):
    """Something the user can mend; the message is one line that names the place and the remedy."""


def wants_traceback() -> bool:
    """Whether the user asked for every error in full."""
    return os.environ.get(TRACEBACK_VARIABLE, "") not in ("", "0")


def message_line(text: str) -> str:
    """A message as a line for a terminal: nothing in it that a terminal would obey, no novel.

    What isn't printable is shown as in Python's literals; of a long text the middle is left out.
    """
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    if len(line) > LONGEST_MESSAGE:
        line = f"{line[: LONGEST_MESSAGE - 200]} ... {line[-200:]}"
    return line
