"""Models that only fairseq builds: the error if fairseq is missing."""

from collections.abc import Iterator
from contextlib import contextmanager

from vaswani_plugin.inference.bundle import ForeignModel
from vaswani_plugin.interchange.ensembles import unchanged_log_level


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
