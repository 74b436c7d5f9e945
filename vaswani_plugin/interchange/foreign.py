"""Models that only fairseq builds: what happens where it is missing."""

from collections.abc import Iterator
from contextlib import contextmanager

from vaswani_plugin.inference.bundle import ForeignModel
from vaswani_plugin.interchange.ensembles import unchanged_log_level


@contextmanager
def fairseq_needed(foreign: ForeignModel) -> Iterator[None]:
    """Within, fairseq is imported for a model; the level of the log stays as it is.

    Args:
        foreign: says which model needs it.

    Raises:
        ForeignModel: fairseq can't be imported.
    """
    try:
        with unchanged_log_level():
            yield
    except ModuleNotFoundError as error:
        raise ForeignModel(f"{foreign}, and fairseq can't be imported ({error})") from error
