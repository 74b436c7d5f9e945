"""Errors that users can correct themselves. They are printed as one line, without a traceback."""

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

LONGEST_MESSAGE = 900
TRACEBACK_VARIABLE = "VASWANI_TRACEBACK"
EXIT_CODE_WHEN_PREEMPTED = 75
"""EX_TEMPFAIL of sysexits.h, "try again later"."""


class UserError(ValueError):
    """A mistake of the user; the message names the value and the remedy."""


class CheckpointError(UserError):
    """A checkpoint that cannot be used; the message names the file and the remedy."""


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


def prepare_stdout() -> None:
    """Text goes out as UTF-8, to a terminal in the terminal's encoding."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        if sys.stdout.isatty():
            sys.stdout.reconfigure(errors="backslashreplace")
        elif sys.stdout.encoding.lower() != "utf-8":
            sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")


def flush_stdout() -> None:
    """Flushes standard output; if that fails, the rest is discarded, and the error names it."""
    try:
        sys.stdout.flush()
    except OSError as error:
        silence_stdout()
        raise OSError(error.errno, error.strerror, "standard output") from error


def silence_stdout() -> None:
    """Discards what is written to standard output from now on.

    Python flushes it once more at exit and would report its error a second time.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def name_stdout(error: OSError) -> OSError:
    """Returns the error, or that of flushing standard output where `error` names no file."""
    try:
        flush_stdout()
    except OSError as again:
        return again if error.filename is None else error
    return error


def run(main: Callable[[], None]) -> None:
    """Runs a script's `main`; an error that the user can fix gives one line and exit code 1."""
    name = Path(sys.argv[0]).name
    prepare_stdout()
    try:
        main()
        flush_stdout()
    except UserError as error:
        sys.exit(f"{name}: error: {one_line(error)}")
    except BrokenPipeError:
        # The reader of the pipe has closed it (`| head`).
        silence_stdout()
        sys.exit(141)
    except OSError as error:
        sys.exit(f"{name}: error: {one_line(name_stdout(error))}")
    except KeyboardInterrupt:
        sys.exit(130)
