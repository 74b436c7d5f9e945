"""Going on within an epoch: with another number of workers, or another ``--update-freq``.

The batches of an epoch have one order, whoever trains on them. Worker k of W takes number k, k + W,
k + 2 W, … of it; an update takes the next ``--update-freq`` of each worker's. A place in the epoch
is kept as the number of batches that each worker has behind it.
"""

import logging
import math
from typing import Any

from fairseq.data import iterators
from fairseq.logging import meters

from vaswani_plugin.compat.replacing import is_defect_in_source, is_replaced, replace

logger = logging.getLogger(__name__)

WORKERS = "num_shards"
"""Where a saved place keeps the number of workers that it counts for; fairseq's own word."""


def keep_place_with_other_workers() -> None:
    """Defect: resumed by another number of workers, an epoch goes on elsewhere.

    fairseq-fixed 0.12.3.1 keeps the batches that each worker has behind it, but not the number of
    workers: half an epoch of two workers is read as a quarter by one, and as a whole one by four.
    Now the place is converted. Where the number of batches that are done is no multiple of the
    workers, the few beyond the multiple come twice, rather than others never; the log says so.
    """
    save = iterators.EpochBatchIterator.state_dict
    load = iterators.EpochBatchIterator.load_state_dict
    if is_replaced(save):
        return

    def state_dict(self: iterators.EpochBatchIterator) -> dict[str, Any]:
        return {**save(self), WORKERS: self.num_shards}

    def load_state_dict(self: iterators.EpochBatchIterator, state_dict: dict[str, Any]) -> None:
        load(self, {**state_dict, "iterations_in_epoch": _batches_done(self, state_dict)})

    replace(iterators.EpochBatchIterator, "state_dict", state_dict)
    replace(iterators.EpochBatchIterator, "load_state_dict", load_state_dict)


def _batches_done(iterator: iterators.EpochBatchIterator, state: dict[str, Any]) -> int:
    """The saved place, as batches of this epoch that each of the workers of now has behind it."""
    each, before, now = state.get("iterations_in_epoch", 0), state.get(WORKERS), iterator.num_shards
    if each == 0 or before == now:
        return each
    place = f"epoch {state['epoch']} goes on after {each} batches of each worker"
    if before is None:
        logger.info(f"{place}: not said how many workers those were, taken to be {now} as now")
        return each
    if _has_order_by_workers(iterator, state):
        logger.warning(
            f"epoch {state['epoch']} begins anew: its batches have another order with {now} workers"
            f" than with {before}, so that its first {each * before} would not be those of before"
        )
        return 0
    done, again = divmod(each * before, now)
    twice = f"; {again} of them come again, to begin with a batch for each" if again else ""
    logger.info(f"{place}, then {before}, now {now}: {each * before} batches in all{twice}")
    return done


def _has_order_by_workers(iterator: iterators.EpochBatchIterator, state: dict[str, Any]) -> bool:
    """Whether another number of workers shuffles the epoch's batches into another order."""
    is_of_several_datasets = isinstance(iterator, iterators.GroupedEpochBatchIterator)
    return is_of_several_datasets or (iterator.grouped_shuffling and state.get("shuffle", True))


def start_the_clock_of_a_resumed_training() -> None:
    """Defect: a resumed training logs `wall` 0, however long it takes.

    fairseq-fixed 0.12.3.1 loads the stopwatches of the log with the checkpoint, and that stops
    them. Those that measure a step are started with the step, that of `wall` never again. Now it
    counts from where the checkpoint was loaded.
    """
    original = meters.StopwatchMeter.load_state_dict
    if not is_defect_in_source(original, "self.start_time = None"):
        return

    def load_state_dict(self: meters.StopwatchMeter, state_dict: dict[str, Any]) -> None:
        original(self, state_dict)
        self.start()

    replace(meters.StopwatchMeter, "load_state_dict", load_state_dict)


def finish_epochs_of_other_groups() -> None:
    """Defect: resumed with another ``--update-freq``, an epoch may lose its end and come again.

    fairseq-fixed 0.12.3.1 counts groups of batches as if the first began with the epoch. After 3
    of 8 batches groups of 4 are two more, but one is waited for: the last batch is left over, and
    since it is, the epoch does not count as finished and is trained on once more, from its start.
    """
    original = iterators.GroupedIterator.__init__
    if not is_defect_in_source(original, "math.ceil(len(iterable) / float(chunk_size))"):
        return

    def __init__(
        self: iterators.GroupedIterator,
        iterable: Any,
        chunk_size: int,
        skip_remainder_batch: bool = False,
    ) -> None:
        begin, end = getattr(iterable, "n", 0), len(iterable)
        if begin == 0:
            original(self, iterable, chunk_size, skip_remainder_batch)
            return
        # fairseq's loop fails on an epoch of no update: then the remainder is not skipped
        skips = skip_remainder_batch and end - begin >= chunk_size
        groups = (end - begin) // chunk_size if skips else math.ceil((end - begin) / chunk_size)
        chunks = iterators._chunk_iterator(iterable, chunk_size, skips)
        start = math.ceil(begin / chunk_size)
        iterators.CountingIterator.__init__(self, chunks, start=start, total=start + groups)
        self.chunk_size = chunk_size
        if skips:
            iterable.take(begin + groups * chunk_size)

    replace(iterators.GroupedIterator, "__init__", __init__)
