"""Data: every sentence in exactly one batch, the same ones after a resume; dictionaries by name."""

import argparse
import atexit
import inspect
import itertools
import queue
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from fairseq import scoring
from fairseq.data import (
    ConcatDataset,
    Dictionary,
    FairseqDataset,
    data_utils,
    iterators,
)
from fairseq.tasks import fairseq_task
from fairseq.tasks.language_modeling import LanguageModelingTask

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.patches._patching import (
    is_affected_version,
    is_patched,
    patch,
    silenced,
)


def concatenate_splits() -> None:
    """With ``train`` and ``train1`` a training ends in "negative dimensions are not allowed".

    So does ``--combine-valid-subsets``. ``--upsample-primary`` is -1 unless it is given, and
    fairseq repeats the first part so many times. Now it is taken once.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """

    @patch(ConcatDataset, "__init__")
    def __init__(
        original: Callable, self: ConcatDataset, datasets: list, sample_ratios: Any = 1
    ) -> None:
        if not isinstance(sample_ratios, int):
            sample_ratios = [1 if ratio < 0 else ratio for ratio in sample_ratios]
        original(self, datasets, sample_ratios)


def know_the_given_valid_subsets() -> None:
    """``--valid-subset valid,valid1`` is refused, as if valid1 were ignored.

    fairseq compares the given names with those of files (valid1.en-de.en). A subset that is left
    out is still refused, now in one line.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    if not is_affected_version():
        return

    @patch(data_utils, "_find_extra_valid_paths")
    def _find_extra_valid_paths(original: Callable, dataset_path: str) -> set[str]:
        return {name.partition(".")[0] for name in original(dataset_path)}

    @patch(data_utils, "raise_if_valid_subsets_unintentionally_ignored")
    def raise_if_valid_subsets_unintentionally_ignored(original: Callable, train_cfg: Any) -> None:
        try:
            original(train_cfg)
        except ValueError as error:
            raise UserError(
                f"{str(error).partition('. ')[0]}: name them in --valid-subset, or give"
                " --combine-valid-subsets or --ignore-unused-valid-subsets"
            ) from None


def keep_last_batch() -> None:
    """Sentences are lost: fairseq-generate translates 56 of 60.

    ``batch_by_size`` drops the last batch if its size is no multiple of
    ``--required-batch-size-multiple`` (default 8); training and validation lose sentences too. An
    empty set raises ``IndexError``, and a sentence longer than a batch 46 lines of traceback.

    Upstream: none known; fairseq 0.12.2 kept them.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    nine = data_utils.batch_by_size(
        np.arange(9), lambda i: 1, max_sentences=8, required_batch_size_multiple=8
    )
    if sum(map(len, nine)) == 9:
        return

    @patch(data_utils, "batch_by_size")
    def batch_by_size(original: Callable, indices: Any, *args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(original).bind(indices, *args, **kwargs).arguments
        if given.get("fixed_shapes") is not None:
            return original(indices, *args, **kwargs)
        if not isinstance(indices, np.ndarray):
            indices = np.fromiter(indices, dtype=np.int64, count=-1)
        if len(indices) == 0:
            return []
        try:
            batches = original(indices, *args, **kwargs)
        except AssertionError:
            _refuse_longest(indices, given)
            raise
        kept = sum(map(len, batches))
        # Batches are slices of the indices in order, so the missing indices are the last batch.
        return batches if kept == len(indices) else [*batches, indices[kept:]]


def _refuse_longest(indices: np.ndarray, given: dict[str, Any]) -> None:
    """Name the longest sentence if it is longer than a batch."""
    sizes, limit = given.get("num_tokens_vec"), given.get("max_tokens")
    if sizes is None:
        sizes = np.array([given["num_tokens_fn"](index) for index in indices])
    number, longest = indices[sizes.argmax()] + 1, sizes.max()
    if limit is not None and limit > 0 and longest > limit:
        raise UserError(
            f"sentence {number} has {longest} tokens, more than --max-tokens {limit}: raise"
            " --max-tokens (in validation --max-tokens-valid), or take it out of the data"
        ) from None


class _Shuffled(FairseqDataset):
    """Eight sentences of one token in random order, for the check below."""

    def __getitem__(self, index: int) -> int:
        return index

    def __len__(self) -> int:
        return 8

    def num_tokens(self, index: int) -> int:
        return 1

    def ordered_indices(self) -> np.ndarray:
        return np.random.permutation(len(self))


def _batches_depend_on_first_epoch() -> bool:
    """Whether a process makes different batches if it starts in epoch 2 instead of epoch 1."""

    def made_in(epoch: int) -> list[list[int]]:
        task = fairseq_task.FairseqTask(argparse.Namespace())
        made = task.get_batch_iterator(_Shuffled(), max_sentences=1, epoch=epoch)
        return [list(batch) for batch in made.frozen_batches]

    with silenced(fairseq_task.logger):
        return made_in(1) != made_in(2)


def rebuild_the_same_batches() -> None:
    """A run resumed in epoch 2 or later trains on other batches than an uninterrupted one.

    fairseq makes batches once, with ``seed + epoch`` of the epoch in which the *process* starts,
    and keeps them for all later epochs. Now each process makes the batches of epoch 1. Batches that
    are made anew in each epoch (``--update-epoch-batch-itr``, a task's ``rebuild_batches``, sharded
    data) are the same in both runs already.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    if not _batches_depend_on_first_epoch():
        return

    @patch(fairseq_task.FairseqTask, "get_batch_iterator")
    def get_batch_iterator(
        original: Callable, self: fairseq_task.FairseqTask, *args: Any, **kwargs: Any
    ) -> iterators.EpochBatchIterating:
        given = inspect.signature(original).bind(self, *args, **kwargs)
        given.apply_defaults()
        values = given.arguments
        dataset, epoch = values["dataset"], values["epoch"]
        kept_for_all_epochs = (
            self.can_reuse_epoch_itr(dataset)
            and not values["disable_iterator_cache"]
            and not values["update_epoch_batch_itr"]
            and not getattr(self.cfg, "rebuild_batches", False)
        )
        if epoch <= 1 or not kept_for_all_epochs or dataset in self.dataset_to_epoch_iter:
            return original(*given.args, **given.kwargs)
        values["epoch"] = 1
        made = original(*given.args, **given.kwargs)
        made.epoch = epoch
        dataset.set_epoch(epoch)
        return made


def refuse_unscored_texts() -> None:
    """``fairseq-eval-lm`` reports a perplexity of 1.00 for a text that it did not read.

    The text is cut into blocks of ``--tokens-per-sample`` tokens, by default 1,024. Blocks longer
    than the model's positions are skipped; these may be all blocks.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """

    @patch(LanguageModelingTask, "eval_lm_dataloader")
    def eval_lm_dataloader(
        original: Callable, self: LanguageModelingTask, *args: Any, **kwargs: Any
    ) -> iterators.CountingIterator:
        batches = original(self, *args, **kwargs)
        given = inspect.signature(original).bind(self, *args, **kwargs).arguments
        if len(given["dataset"]) and not len(batches):
            raise UserError(
                f"no block of the text fits into the {given.get('max_positions')} positions of "
                "the model, so nothing can be scored: give --tokens-per-sample so many, less "
                "--context-window"
            )
        return batches


class DictionaryError(UserError):
    """A file that is no dictionary; the message names it."""


def name_broken_dictionaries() -> None:
    """A broken dict.txt is refused without its name.

    The error is a ValueError, a RuntimeError or a bare Exception with the whole line, whatever its
    length. Now it names the file.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """

    @patch(Dictionary, "add_from_file")
    def add_from_file(original: Callable, self: Dictionary, f: Any) -> None:
        if not isinstance(f, str):
            return original(self, f)
        try:
            return original(self, f)
        except OSError:
            raise
        except Exception as error:
            reason = str(error).split(". ")[0]
            raise DictionaryError(
                f"{f}: not a dictionary: {reason}; give the one that was made with the data"
            ) from error


SECONDS_TO_STOP = 10.0
"""Seconds to wait for the batch that is being made; a slower thread is left to Python."""


def stop_batch_threads_before_exit() -> None:
    """A finished training aborts at its exit ("terminate called ...", SIGABRT).

    Batches are prepared in a thread that keeps running. Python ends the thread while it shuts down.
    If that happens inside PyTorch, the whole process aborts, and scripts see a failed training. Now
    these threads stop before the shutdown.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    if is_patched(iterators.BackgroundConsumer.run):
        return
    stopping = threading.Event()
    consumers: weakref.WeakSet[iterators.BackgroundConsumer] = weakref.WeakSet()

    @patch(iterators.BackgroundConsumer, "run")
    def run(original: Callable, self: iterators.BackgroundConsumer) -> None:
        consumers.add(self)
        self._source = itertools.takewhile(lambda _: not stopping.is_set(), self._source)
        original(self)

    def stop() -> None:
        stopping.set()
        deadline = time.monotonic() + SECONDS_TO_STOP
        for consumer in list(consumers):
            while consumer.is_alive() and time.monotonic() < deadline:
                with suppress(queue.Empty):  # the thread may wait for room in its queue
                    consumer._queue.get_nowait()
                consumer.join(0.01)

    atexit.register(stop)


def count_skipped_sentences() -> None:
    """``--skip-invalid-size-inputs-valid-test`` in fairseq-generate: the score is of the rest.

    Only the log says that sentences were skipped, and it goes elsewhere than the output. Now the
    last line of the output says it after the score, and ``vaswani bleu`` refuses the output.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    counts: list[tuple[int, int]] = []

    @patch(fairseq_task.FairseqTask, "filter_indices_by_size")
    def filter_indices_by_size(
        original: Callable, self: fairseq_task.FairseqTask, indices: Any, *args: Any, **kwargs: Any
    ) -> Any:
        kept = original(self, indices, *args, **kwargs)
        counts.append((len(indices) - len(kept), len(indices)))
        return kept

    @patch(scoring, "build_scorer")
    def build_scorer(original: Callable, *args: Any, **kwargs: Any) -> Any:
        scorer = original(*args, **kwargs)
        result_string = scorer.result_string

        def with_skipped(*more: Any, **options: Any) -> str:
            skipped, total = counts[-1] if counts else (0, 0)
            said = f", {skipped} of {total} sentences skipped" if skipped else ""
            return result_string(*more, **options) + said

        scorer.result_string = with_skipped
        return scorer
