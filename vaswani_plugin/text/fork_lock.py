"""A lock that a child of `fork` finds open, whatever thread of the parent held it."""

import os
from threading import Lock
from types import TracebackType
from weakref import WeakSet


class ForkLock:
    """`threading.Lock` for `with`; a child process gets a new one."""

    def __init__(self) -> None:
        self._lock = Lock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()


_LOCKS: WeakSet[ForkLock] = WeakSet()


def _renew() -> None:
    for each in list(_LOCKS):
        each._lock = Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew)
