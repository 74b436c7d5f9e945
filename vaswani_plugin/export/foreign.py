"""Models that only fairseq builds: the level of the log, and the error if fairseq is missing."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from vaswani_plugin.inference.bundle import ForeignModel


@contextmanager
def unchanged_log_level() -> Iterator[None]:
    """Keep the root logger's level: importing fairseq sets it to DEBUG for every library."""
    root = logging.getLogger()
    level = root.level
    try:
        yield
    finally:
        root.setLevel(level)


@contextmanager
def fairseq_needed(foreign: ForeignModel) -> Iterator[None]:
    """Context in which fairseq is imported for a model; the level of the log is kept.

    Args:
        foreign: an error whose message says which model needs fairseq.

    Raises:
        ForeignModel: fairseq can't be imported.
    """
    try:
        with unchanged_log_level():
            yield
    except ModuleNotFoundError as error:
        raise ForeignModel(f"{foreign}, and fairseq can't be imported ({error})") from error
