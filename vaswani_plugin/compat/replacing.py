"""How a mend takes the place of a function of fairseq: visibly, and only once."""

import functools
import inspect
from collections.abc import Callable
from typing import Any


def replace(owner: Any, name: str, replacement: Callable) -> None:
    """Bind `replacement` as ``owner.name``, under the original's name, docstring and signature.

    Args:
        owner: a module or a class.
        name: a function's name there.
        replacement: takes the original's arguments.
    """
    original = getattr(owner, name)
    functools.update_wrapper(replacement, original)
    replacement.vaswani_mend = True
    is_static = inspect.isclass(owner) and isinstance(
        inspect.getattr_static(owner, name), staticmethod
    )
    setattr(owner, name, staticmethod(replacement) if is_static else replacement)


def is_replaced(function: Callable) -> bool:
    """Whether `function` is already a mend's."""
    return getattr(function, "vaswani_mend", False)
