"""What importing fairseq costs: a third of it is spared where this is the first to import it."""

import gc
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

SELDOM_USED = ("sklearn.metrics", "scipy.stats")
"""Modules whose functions fairseq calls to measure classifiers of sentences and of sounds only."""


class _Postponed(ModuleType):
    """Stands for a module of functions, and imports it when one of them is called."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

        def call(*args: Any, **kwargs: Any) -> Any:
            return getattr(importlib.import_module(self.__name__), name)(*args, **kwargs)

        return call


@contextmanager
def _nothing_is_garbage() -> Iterator[None]:
    """Don't look for unreachable objects meanwhile, nor ever again among those that were made.

    What an import makes, stays. Looking through it again and again takes half a second.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def import_fairseq() -> None:
    """Defect: `import fairseq` imports scikit-learn and scipy, for metrics of two of its tasks.

    fairseq-fixed 0.12.3.1 does it in `criterions/sentence_prediction.py` and
    `tasks/audio_classification.py`: 1.2 of the 4.5 s that a command takes to start. Both get
    functions that import them when they are called. Where fairseq, or one of the two, was imported
    before, nothing is done.
    """
    packages = {name.partition(".")[0] for name in SELDOM_USED}
    if {"fairseq", *packages} & sys.modules.keys():
        return
    stand_ins = {name: ModuleType(name) for name in packages}
    for name in SELDOM_USED:
        package, _, module = name.partition(".")
        stand_ins[name] = _Postponed(name)
        setattr(stand_ins[package], module, stand_ins[name])
    sys.modules.update(stand_ins)
    try:
        with _nothing_is_garbage():
            importlib.import_module("fairseq")
    finally:
        for name in stand_ins:
            del sys.modules[name]
