"""A user's mistake ends in one line on stderr and exit code 1; a defect keeps its traceback.

fairseq's commands print a traceback for everything. Here an error counts as the user's when a
``raise`` statement of this plugin threw a ``ValueError`` or ``OSError``; when one of fairseq threw
an ``OSError`` ("Model file not found: …") or a bare ``Exception``, its way to speak to users ("Size
of sample #9 is invalid …"); and when fairseq met a missing file. Whatever else comes up, and every
error met while ``VASWANI_TRACEBACK=1``, is printed in full.
"""

import dis
import sys
from pathlib import Path
from types import TracebackType

import fairseq

from vaswani_plugin.text.messages import message_line, wants_traceback

OURS = Path(__file__).resolve().parents[1]
FAIRSEQ = Path(fairseq.__file__).resolve().parent


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message names the file and the remedy."""


def is_users_error(error: BaseException) -> bool:
    """Whether `error` was raised on purpose, about something that the user can set right."""
    raised_at = error.__traceback__
    if raised_at is None:
        return False
    while raised_at.tb_next is not None:
        raised_at = raised_at.tb_next
    code = raised_at.tb_frame.f_code
    origin = Path(code.co_filename).resolve()
    # A ValueError of `int(text)` or of an unpacking also ends in our frame, but on another opcode.
    on_purpose = code.co_code[raised_at.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    if origin.is_relative_to(OURS):
        return on_purpose and isinstance(error, (ValueError, OSError))
    if not origin.is_relative_to(FAIRSEQ):
        return False
    if isinstance(error, FileNotFoundError):
        return on_purpose or error.filename is not None
    says_why = isinstance(error, OSError) or (type(error) is Exception and not error.__context__)
    return on_purpose and says_why


def one_line(error: BaseException) -> str:
    """``error: `` and the message without line breaks."""
    return message_line("error: " + " ".join(str(error).split()))


def is_fairseq_command(argv0: str) -> bool:
    """Whether a process with this ``sys.argv[0]`` is fairseq's: ``fairseq-train`` or a module."""
    program = Path(argv0)
    return program.name.startswith("fairseq-") or program.parent.name == "fairseq_cli"


def print_users_errors_in_one_line() -> None:
    """Defect: a mistyped path ends in forty lines of traceback (fairseq-fixed 0.12.3.1).

    Installed only in fairseq's own commands: a program that imports the plugin keeps its hook.
    """
    if not is_fairseq_command(sys.argv[0]) or hasattr(sys.excepthook, "vaswani_mend"):
        return
    previous = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        if wants_traceback() or not is_users_error(error):
            previous(kind, error, traceback)
            return
        sys.stdout.flush()
        print(one_line(error), file=sys.stderr)

    hook.vaswani_mend = True
    sys.excepthook = hook
