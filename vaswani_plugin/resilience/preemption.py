"""SIGTERM and SIGUSR1: save and leave, with an exit code of its own; the next start goes on.

Schedulers send these before they take a machine away. The update at hand is finished, a checkpoint
is saved at once (whatever comes later, nothing is lost), then the training ends where no step is
left half done: a validation that has begun, or is due, is finished and saved as usual.
"""

import logging
import multiprocessing
import os
import signal
import sys
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.data.iterators import EpochBatchIterating
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer

from vaswani_plugin.compat.errors import is_fairseq_command
from vaswani_plugin.compat.replacing import replace

logger = logging.getLogger(__name__)

EXIT_CODE = 75
"""EX_TEMPFAIL of sysexits.h: "try again later"."""

SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name)]


@dataclass
class Request:
    """What this process was asked to do, and what it has done about it."""

    asked: bool = False
    saved: bool = False
    is_training: bool = False
    batches: EpochBatchIterating | None = None


_request = Request()


def save_and_leave_when_asked() -> None:
    """Look after each step whether a signal came, on any worker; save, and leave before the next.

    Handlers are installed by `listen`.
    """
    get_train_iterator, train_step = Trainer.get_train_iterator, Trainer.train_step
    valid_step = Trainer.valid_step

    def remember_batches(self: Trainer, *args: Any, **kwargs: Any) -> EpochBatchIterating:
        _request.batches = get_train_iterator(self, *args, **kwargs)
        return _request.batches

    def train_or_leave(self: Trainer, samples: Any, raise_oom: bool = False) -> Any:
        if _request.saved:
            _leave(self)
        logged = train_step(self, samples, raise_oom)
        _save_if_asked(self)
        return logged

    def validate_and_save(self: Trainer, sample: Any, raise_oom: bool = False) -> Any:
        logged = valid_step(self, sample, raise_oom)
        if not raise_oom:  # fairseq tries a batch again from within: one look a batch
            _save_if_asked(self)
        return logged

    replace(Trainer, "get_train_iterator", remember_batches)
    replace(Trainer, "train_step", train_or_leave)
    replace(Trainer, "valid_step", validate_and_save)


def listen(is_training: bool) -> None:
    """Handle the signals, in fairseq's training commands; a program's own handlers stay.

    Args:
        is_training: whether this process trains, or starts those that do.
    """
    _request.is_training |= is_training
    program = Path(sys.argv[0])
    trains = program.stem.removeprefix("fairseq-").replace("-", "_") in ("train", "hydra_train")
    if not (trains and is_fairseq_command(sys.argv[0])):
        return
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _on_signal)
    if is_training:
        _shield_loader_workers()


def was_asked() -> bool:
    """Whether one of the signals came."""
    return _request.asked


def _on_signal(number: int, frame: Any) -> None:
    _request.asked = True
    # data-loader workers are daemons; those that fairseq starts to train are not
    workers = [child for child in multiprocessing.active_children() if not child.daemon]
    for worker in workers:
        os.kill(worker.pid, number)
    if not (_request.is_training or workers):
        raise SystemExit(EXIT_CODE)  # nothing was begun


@cache  # it can't be taken back
def _shield_loader_workers() -> None:
    if hasattr(signal, "sigwaitinfo"):  # Linux, where data-loader workers are forks
        os.register_at_fork(after_in_child=_obey_parent_only)


def _obey_parent_only() -> None:
    """In a new data-loader worker: only the process that it loads for may end it.

    A scheduler signals the whole group. Without its data-loader workers the training would fail
    before it could save.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    threading.Thread(target=_obey_parent, daemon=True).start()


def _obey_parent() -> None:
    while signal.sigwaitinfo(SIGNALS).si_pid != os.getppid():
        pass
    os._exit(0)


def _agreed(trainer: Trainer, mine: bool) -> bool:
    """Whether any worker says yes; waits for all."""
    if trainer.data_parallel_world_size == 1:
        return mine
    votes = torch.tensor([float(mine)], device=trainer.device)
    group = trainer.data_parallel_process_group
    return bool(distributed_utils.all_reduce(votes, group=group, op="max").item())


def _save_if_asked(trainer: Trainer) -> None:
    if _request.saved or not _request.is_training or not _agreed(trainer, _request.asked):
        return
    updates = trainer.get_num_updates()
    logger.warning("asked to leave: saving update %d", updates)
    checkpoint_utils.save_checkpoint(trainer.cfg.checkpoint, trainer, _request.batches, None)
    _request.saved = True


def _leave(trainer: Trainer) -> None:
    _agreed(trainer, True)  # the worker that saves may need longer than the others
    logger.warning(
        "left as asked after update %d, exit code %d: the same command goes on",
        trainer.get_num_updates(),
        EXIT_CODE,
    )
    raise SystemExit(EXIT_CODE)
