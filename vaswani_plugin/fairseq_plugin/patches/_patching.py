"""Replaces functions of fairseq by patches; every replacement is recorded and made only once."""

import functools
import inspect
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import fairseq

SEEN_IN = "0.12.3.1"
"""The version of fairseq (fairseq-fixed) in which the defects were seen."""


class Patched(NamedTuple):
    """An attribute of fairseq that a patch replaced."""

    owner: Any  # a module or a class
    name: str


PATCHED: list[Patched] = []
"""Every replaced attribute; only `patch` adds to it."""


def patch(owner: Any, name: str) -> Callable[[Callable], Callable]:
    """Decorate a function that replaces ``owner.name`` from now on.

    The decorated function gets the original as its first argument, then the call's arguments. The
    replacement has the original's name, docstring and signature. Applying the same patch again
    changes nothing.

    Args:
        owner: a module or a class.
        name: name of a function in it.

    Returns:
        The decorator.

    Raises:
        AssertionError: another patch replaced the function before.
    """

    def install(replacement: Callable) -> Callable:
        original = getattr(owner, name)
        patch_name = f"{replacement.__module__}.{replacement.__qualname__}"
        before = getattr(original, "patched_by", None)
        if before == patch_name:
            return replacement
        assert before is None, f"{owner.__name__}.{name}: patched by {before} and {patch_name}"

        @functools.wraps(original)
        def patched(*args: Any, **kwargs: Any) -> Any:
            return replacement(original, *args, **kwargs)

        patched.patched_by = patch_name
        is_static = inspect.isclass(owner) and isinstance(
            inspect.getattr_static(owner, name), staticmethod
        )
        setattr(owner, name, staticmethod(patched) if is_static else patched)
        PATCHED.append(Patched(owner, name))
        return replacement

    return install


def is_patched(function: Callable) -> bool:
    """Whether `function` is a patch's replacement."""
    return hasattr(function, "patched_by")


@contextmanager
def silenced(logger: logging.Logger) -> Iterator[None]:
    """Disable a logger while a patch checks whether its defect exists."""
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def is_affected_version() -> bool:
    """Whether fairseq is no newer than `SEEN_IN`.

    This is for defects that a patch can't check for, because they appear only when processes are
    started or a disk fails.
    """
    version = fairseq.__version__
    is_old_branch = version.startswith("1.0.0a")  # its main branch before 0.12
    return is_old_branch or _as_numbers(version) <= _as_numbers(SEEN_IN)


def _as_numbers(version: str) -> list[int]:
    """The parts of a version that are numbers: [0, 12, 2] of `0.12.2+abc`."""
    return [int(part) for part in re.split(r"\D+", version.partition("+")[0]) if part]
