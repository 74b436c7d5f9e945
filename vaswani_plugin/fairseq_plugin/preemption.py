"""On SIGTERM or SIGUSR1 the training saves and exits with its own exit code; later it resumes.

Schedulers send these signals before they take a machine away. The training finishes the current
update and saves a checkpoint. Then it exits before the next update: a validation that has begun, or
is due, is finished and saved as usual.
"""

import logging
import multiprocessing
import os
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.data.iterators import EpochBatchIterating
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer

from vaswani_plugin.errors import EXIT_CODE_WHEN_PREEMPTED as CODE
from vaswani_plugin.fairseq_plugin.patches.command_lines import is_fairseq_command

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


@dataclass
class Request:
    """A signal's request to this process to save and exit, and whether the save is done.

    A process has one instance, `REQUEST`, because signals are sent to processes.
    """

    asked: bool = False
    saved: bool = False
    is_training: bool = False
    batches: EpochBatchIterating | None = None  # of the current epoch

    def save_if_requested(self, trainer: Trainer) -> None:
        """Save once, after a step in which any worker got a signal; waits for all workers."""
        if self.saved or not self.is_training or not any_worker(trainer, self.asked):
            return
        logger.warning("asked to leave: saving update %d", trainer.get_num_updates())
        checkpoint_utils.save_checkpoint(trainer.cfg.checkpoint, trainer, self.batches, None)
        self.saved = True

    def exit_if_saved(self, trainer: Trainer) -> None:
        """End the process before the next step, with exit code 75."""
        if not self.saved:
            return
        any_worker(trainer, True)  # the worker that saves may need longer than the others
        updates = trainer.get_num_updates()
        logger.warning("left as asked after update %d, exit code %d", updates, CODE)
        raise SystemExit(CODE)


REQUEST = Request()


def listen(is_training: bool = False) -> None:
    """Handle the signals in fairseq's training commands; a program's own handlers are kept."""
    REQUEST.is_training |= is_training
    program = Path(sys.argv[0])
    trains = program.stem.removeprefix("fairseq-").replace("-", "_") in ("train", "hydra_train")
    if not (trains and is_fairseq_command(sys.argv[0])):
        return
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _on_signal)
    if is_training and hasattr(signal, "sigwaitinfo"):  # Linux: data-loader workers are forks
        os.register_at_fork(after_in_child=_accept_only_signals_of_parent)


def any_worker(trainer: Trainer, value: bool) -> bool:
    """Whether `value` is true in any worker; waits for all workers."""
    if trainer.data_parallel_world_size == 1:
        return value
    votes = torch.tensor([float(value)], device=trainer.device)
    group = trainer.data_parallel_process_group
    return bool(distributed_utils.all_reduce(votes, group=group, op="max").item())


def _on_signal(number: int, frame: Any) -> None:
    REQUEST.asked = True
    # data-loader workers are daemons; those that fairseq starts to train are not
    workers = [child for child in multiprocessing.active_children() if not child.daemon]
    for worker in workers:
        os.kill(worker.pid, number)
    if not (REQUEST.is_training or workers):
        raise SystemExit(CODE)  # there is nothing to save yet


def _accept_only_signals_of_parent() -> None:
    """In a new data-loader worker: ignore signals unless the parent process sends them.

    A scheduler signals the whole process group. Without its data-loader workers the training would
    fail before it could save.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    threading.Thread(target=_exit_on_signal_of_parent, daemon=True).start()


def _exit_on_signal_of_parent() -> None:
    while signal.sigwaitinfo(SIGNALS).si_pid != os.getppid():
        pass
    os._exit(0)
