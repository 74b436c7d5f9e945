"""Resuming within an epoch: with another number of workers, or other batches.

The order of an epoch's batches does not depend on the number of workers. Worker k of W takes
batches k, k + W, k + 2 W, ...; an update takes the next ``--update-freq`` batches of each worker. A
checkpoint keeps the number of batches that each worker has finished.
"""

import hashlib
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from fairseq.data.iterators import EpochBatchIterator
from fairseq.logging import meters

from vaswani_plugin.fairseq_plugin.patches._patching import patch

logger = logging.getLogger(__name__)

WORKERS, BATCHES = "num_shards", "batches"
"""Keys of a saved state: the number of workers, and a digest of the batches and their order."""


def resume_epoch_with_other_batches() -> None:
    """With another number of workers or other batches, a resumed epoch continues elsewhere.

    A checkpoint lacks the number of workers: half an epoch of two is read as a quarter by one. Now
    it is converted; if it is no multiple of the workers, the last few batches are repeated.

    With another ``--max-tokens``, ``--batch-size`` or ``--seed`` the number means other sentences:
    some come twice and others never. Now the epoch begins anew.
    """

    @patch(EpochBatchIterator, "state_dict")
    def state_dict(original: Callable, self: EpochBatchIterator) -> dict[str, Any]:
        state = {**original(self), WORKERS: self.num_shards}
        if state["iterations_in_epoch"]:
            state[BATCHES] = _digest(self)
        return state

    @patch(EpochBatchIterator, "load_state_dict")
    def load_state_dict(original: Callable, self: EpochBatchIterator, state: dict) -> None:
        finished = _finished_batches(self, state) if state.get("iterations_in_epoch") else 0
        original(self, {**state, "iterations_in_epoch": finished})


def _finished_batches(iterator: EpochBatchIterator, state: dict[str, Any]) -> int:
    """The number of batches of this epoch that each of the current workers has finished."""
    epoch, each, now = state["epoch"], state["iterations_in_epoch"], iterator.num_shards
    before = state.get(WORKERS, now)  # a checkpoint of stock fairseq has no number
    known = _digest(iterator)
    if (
        state.get(BATCHES, known) != known
        or each * before >= len(iterator.frozen_batches)
        or (before != now and iterator.grouped_shuffling)  # then their order depends on it
    ):
        logger.warning(
            f"epoch {epoch} begins anew: its batches are others than those before (another"
            " --max-tokens, --batch-size, --seed or order), so what was trained on comes again"
        )
        return 0
    finished, repeated = divmod(each * before, now)
    if before != now:
        logger.info(
            f"epoch {epoch} continues after {each * before} batches of {before} workers with {now}"
            + (f"; {repeated} of them come again, so that each worker has one" if repeated else "")
        )
    return finished


def _digest(iterator: EpochBatchIterator) -> str:
    """A digest of all workers' batches, and of the flags of their order."""
    batches = iterator.frozen_batches
    order = (iterator.seed, iterator.disable_shuffling, iterator.grouped_shuffling)
    digest = hashlib.sha256(repr(order).encode())
    for numbers in ([len(batch) for batch in batches], *batches):
        digest.update(np.asarray(numbers, dtype=np.int64).tobytes())
    return digest.hexdigest()


def restart_stopwatches_on_resume() -> None:
    """A resumed training logs `wall` 0, however long it takes.

    Loading a checkpoint stops fairseq's stopwatches. A recipe adds up `wall` of all starts.
    """

    @patch(meters.StopwatchMeter, "load_state_dict")
    def load_state_dict(original: Callable, self: meters.StopwatchMeter, state: dict) -> None:
        original(self, state)
        self.start()
