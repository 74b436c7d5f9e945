"""A signal makes the training save and exit with its own exit code; later it resumes.

These are Ctrl-C (SIGINT), a closed terminal (SIGHUP), and schedulers' SIGTERM and SIGUSR1. The
current update is finished and saved; a validation that has begun, or is due, too. A second Ctrl-C
ends the training at once.
"""

import logging
import multiprocessing
import os
import re
import signal
import stat
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.data.iterators import EpochBatchIterating
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer

logger = logging.getLogger(__name__)

EXIT_CODE = 75
"""EX_TEMPFAIL of sysexits.h, "try again later"."""
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT)
SAME_INTERRUPT = 0.5  # seconds in which one Ctrl-C may come twice: of the terminal, and of torchrun


@dataclass
class Request:
    """A signal's request to this process to save and exit, and whether the save is done."""

    code: int = 0  # the exit code that was asked for
    interrupted_at: float = 0.0  # seconds, of the first Ctrl-C
    saved: bool = False
    is_training: bool = False
    batches: EpochBatchIterating | None = None  # of the current epoch

    def save_if_requested(self, trainer: Trainer) -> None:
        """Save once, after a step in which any worker got a signal; waits for all workers."""
        if self.saved or not self.is_training or not (code := highest(trainer, self.code)):
            return
        self.code = code
        logger.warning("asked to leave: saving update %d", trainer.get_num_updates())
        checkpoint_utils.save_checkpoint(trainer.cfg.checkpoint, trainer, self.batches, None)
        self.saved = True

    def exit_if_saved(self, trainer: Trainer) -> None:
        """End the process before the next step, with exit code 75, or 130 after Ctrl-C."""
        if self.saved:
            highest(trainer, 1)  # the worker that saves may need longer than the others
            updates = trainer.get_num_updates()
            logger.warning("left as asked after update %d, exit code %d", updates, self.code)
            raise SystemExit(self.code)


REQUEST = Request()  # one a process, as signals are sent to processes


def listen(is_training: bool = False) -> None:
    """Handle the signals in fairseq's training commands; a program's own handlers are kept."""
    REQUEST.is_training |= is_training
    if not re.search(r"fairseq(-|_cli/)(hydra[-_])?train(\.py)?$", sys.argv[0]):
        return
    for number in SIGNALS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _on_signal)
    if is_training and hasattr(signal, "sigwaitinfo"):  # Linux: data-loader workers are forks
        os.register_at_fork(after_in_child=_accept_only_signals_of_parent)


def highest(trainer: Trainer, value: int) -> int:
    """The highest `value`, below 2^24, of any worker; waits for all workers."""
    if trainer.data_parallel_world_size == 1:
        return value
    votes = torch.tensor([float(value)], device=trainer.device)
    group = trainer.data_parallel_process_group
    return int(distributed_utils.all_reduce(votes, group=group, op="max").item())


def _on_signal(number: int, frame: Any) -> None:
    children = multiprocessing.active_children()
    workers = [child for child in children if not child.daemon]  # data loaders' are daemons
    code = EXIT_CODE
    if number == signal.SIGINT:
        code, now = 128 + signal.SIGINT, time.monotonic()
        REQUEST.interrupted_at = REQUEST.interrupted_at or now
        if now - REQUEST.interrupted_at > SAME_INTERRUPT:  # at once
            for child in children:
                child.kill()
            os._exit(code)
        number = signal.SIGTERM  # for workers; the terminal sends them SIGINT itself
    elif number == signal.SIGHUP:
        for stream in (1, 2):  # a line for a terminal that is gone would be an error
            if stat.S_ISCHR(os.fstat(stream).st_mode) and not os.isatty(stream):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    REQUEST.code = REQUEST.code or code
    for pid in (worker.pid for worker in workers if worker.pid):
        os.kill(pid, number)
    if not (REQUEST.is_training or workers):
        raise SystemExit(code)  # there is nothing to save yet


def _accept_only_signals_of_parent() -> None:
    """In a new data-loader worker: ignore signals unless the parent process sends them.

    A scheduler signals the whole group; without its loaders the training could not save.
    """

    def wait() -> None:
        while signal.sigwaitinfo(SIGNALS).si_pid != os.getppid():
            pass
        os._exit(0)

    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    threading.Thread(target=wait, daemon=True).start()
