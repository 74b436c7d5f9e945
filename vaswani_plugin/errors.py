"""Errors that users can correct themselves. They are printed as one line, without a traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

EXIT_CODE_WHEN_PREEMPTED = 75
"""EX_TEMPFAIL of sysexits.h, "try again later"."""


class UserError(ValueError):
    """A mistake of the user; the message names the value and the remedy."""


class CheckpointError(UserError):
    """A checkpoint that cannot be used; the message names the file and the remedy."""


@contextmanager
def value_errors_as_user_errors() -> Iterator[None]:
    """Turn a `ValueError` of `modules`, which don't import this file, into a `UserError`.

    Use it where a user's value reaches a module unchanged.

    Raises:
        UserError: with the message of the module's error.
    """
    try:
        yield
    except UserError:
        raise
    except ValueError as error:
        raise UserError(str(error)) from error
