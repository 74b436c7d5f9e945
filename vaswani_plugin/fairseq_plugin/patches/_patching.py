"""Replaces functions of fairseq by patches; each is replaced only once."""

import functools
import inspect
from collections.abc import Callable
from typing import Any


def patch(owner: Any, name: str) -> Callable[[Callable], Callable]:
    """Decorate a function that replaces ``owner.name`` from now on.

    The decorated function gets the original as its first argument, then the call's arguments.
    Applying the same patch again changes nothing. `owner` is a module or a class.
    """

    def install(replacement: Callable) -> Callable:
        original, static = getattr(owner, name), inspect.getattr_static(owner, name)
        patch_name = f"{replacement.__module__}.{replacement.__qualname__}"
        before = getattr(original, "patched_by", None)
        if before == patch_name:
            return replacement
        assert before is None, f"{owner.__name__}.{name}: patched by {before} and {patch_name}"

        @functools.wraps(original)
        def patched(*args: Any, **kwargs: Any) -> Any:
            return replacement(original, *args, **kwargs)

        patched.__dict__["patched_by"] = patch_name
        setattr(owner, name, staticmethod(patched) if type(static) is staticmethod else patched)
        return replacement

    return install
