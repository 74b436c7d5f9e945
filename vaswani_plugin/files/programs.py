"""Runs the main function of a command or script: text goes out as UTF-8, an error is one line."""

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

from vaswani_plugin.errors import UserError

LONGEST_MESSAGE = 900
STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1")  # as flags name it
TRACEBACK_VARIABLE = "VASWANI_TRACEBACK"


def run(main: Callable[[], None]) -> None:
    """Runs a script's `main` and exits; see `exit_code`."""
    sys.exit(exit_code(main, Path(sys.argv[0]).name))


def exit_code(main: Callable[[], None], name: str) -> int:
    """Runs `main`, prints an error that the user can correct as one line, and returns the code.

    A `UserError`, `OSError` or `MemoryError` is such an error, with code 1, unless
    VASWANI_TRACEBACK asks for tracebacks. It is 130 after Ctrl-C, 141 where the reader of a pipe
    has closed it (`| head`). Any other exception is a defect, and is not caught.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal keeps its encoding
        if sys.stdout.isatty():
            sys.stdout.reconfigure(errors="backslashreplace")
        else:
            sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        try:
            main()
        except SystemExit:
            _flush_stdout()  # the text of --help
            raise
        _flush_stdout()
        return 0
    except BrokenPipeError:
        _silence_stdout()
        return 141
    except KeyboardInterrupt as error:
        print(f"{name}: interrupted{_notes(error)}", file=sys.stderr)
        return 130
    except (UserError, OSError, MemoryError) as error:
        if wants_traceback():
            raise
        message = one_line(_named(error) if isinstance(error, OSError) else error)
        if isinstance(error, MemoryError):
            message = "out of memory: give shorter input"
        print(f"{name}: error: {message}{_notes(error)}", file=sys.stderr)
        return 1


def _notes(error: BaseException) -> str:
    return "".join(getattr(error, "__notes__", ()))


def _flush_stdout() -> None:
    """Flushes standard output; if that fails, the rest is discarded, and the error names it."""
    try:
        sys.stdout.flush()
    except OSError as error:
        _silence_stdout()
        raise OSError(error.errno, error.strerror, "standard output") from error


def _silence_stdout() -> None:
    """Discards further output: Python flushes at exit, and would report an error again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _named(error: OSError) -> OSError:
    """Returns the error, or that of flushing standard output where `error` names no file."""
    try:
        _flush_stdout()
    except OSError as again:
        return again if error.filename is None else error
    return error


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
