"""What commands say to the people who use them when something is wrong."""

LONGEST_MESSAGE = 900


class InputError(ValueError):
    """Something the user can mend; the message is one line that names the place and the remedy."""


def message_line(text: str) -> str:
    """A message as a line for a terminal: nothing in it that a terminal would obey, no novel.

    What isn't printable is shown as in Python's literals; of a long text the middle is left out.
    """
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    if len(line) > LONGEST_MESSAGE:
        line = f"{line[: LONGEST_MESSAGE - 200]} ... {line[-200:]}"
    return line
