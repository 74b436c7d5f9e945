"""fairseq-train in forks that can be killed; each fault is put into one fork alone.

A start takes a second, for nothing is imported and no flag is parsed anew.
"""

import gc
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
import torch._dynamo  # noqa: F401 the first optimizer imports it: not anew in each fork
from fairseq import checkpoint_utils, options
from fairseq.distributed import utils as distributed_utils
from fairseq_cli import preprocess, train
from fairseq_flags import training_config
from omegaconf import DictConfig, open_dict

from tests.conftest import write_toy_corpus
from vaswani_plugin.fairseq_plugin import training
from vaswani_plugin.fairseq_plugin.patches.checkpoints import MASTERS
from vaswani_plugin.fairseq_plugin.patches.messages import is_users_error, one_line
from vaswani_plugin.fairseq_plugin.training import preemption

DEBUG = (
    *("--task", "vaswani_translation", "--arch", "vaswani_debug", "--max-tokens", "100"),
    *("--warmup-updates", "20", "--num-workers", "0", "--cpu", "--no-progress-bar"),
    *("--log-interval", "1", "--ddp-backend", "legacy_ddp"),
)
"""Seven updates an epoch on the toy corpus, each in milliseconds, with dropout."""


def make_data(folder: Path) -> Path:
    """The toy corpus as fairseq reads it, made in this process."""
    text = folder / "text"
    text.mkdir()
    write_toy_corpus(text)
    flags = ["--source-lang", "src", "--target-lang", "tgt", "--joined-dictionary"]
    for split in ("train", "valid", "test"):
        flags += [f"--{split}pref", str(text / split)]
    flags += ["--destdir", str(folder / "data"), "--workers", "1"]
    preprocess.main(options.get_preprocessing_parser().parse_args(flags))
    return folder / "data"


def debug_config(data: Path, save_dir: Path, *flags: object) -> DictConfig:
    """What fairseq-train makes of `DEBUG` and more flags."""
    cfg = training_config(*DEBUG, *map(str, flags)).copy()
    cfg.task.data, cfg.checkpoint.save_dir = str(data), str(save_dir)
    return cfg


def as_worker(cfg: DictConfig, rank: int, workers: int, meeting: Path) -> DictConfig:
    """The same for one of several workers, each a fork of its own, that meet in a new file."""
    cfg = cfg.copy()
    with open_dict(cfg):
        distributed = cfg.distributed_training
        distributed.distributed_world_size, distributed.distributed_rank = workers, rank
        distributed.distributed_init_method = f"file://{meeting}"
        distributed.distributed_no_spawn, distributed.distributed_backend = True, "gloo"
    return cfg


class Fork:
    """A process that does one thing and ends.

    Args:
        work: what it does; its exceptions end it as they end fairseq's commands.
        log: where its output is added.
    """

    def __init__(self, work: Callable[[], None], log: Path) -> None:
        self.log = log
        self.began = log.stat().st_size if log.exists() else 0
        sys.stdout.flush()
        sys.stderr.flush()
        gc.freeze()  # the fork's collector would copy every page that it looks at
        self.pid = os.fork()
        if self.pid == 0:
            _run(work, log)

    def wait(self, timeout: float = 300) -> int:
        """The exit code, negative for a signal, as `subprocess` has it."""
        end = time.monotonic() + timeout
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > end:
                os.killpg(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise AssertionError(f"{self.log}: no end after {timeout} s")
            time.sleep(0.005)

    def wait_for(self, text: str, timeout: float = 300) -> None:
        """Wait until it has printed something."""
        end = time.monotonic() + timeout
        while text not in self.output():
            assert time.monotonic() < end, f"{self.log}: no {text!r} in {timeout} s"
            time.sleep(0.005)

    def output(self) -> str:
        """What it has printed."""
        if not self.log.exists():
            return ""
        with open(self.log, encoding="utf-8", errors="replace") as stream:
            stream.seek(self.began)
            return stream.read()


def start_training(cfg: DictConfig, log: Path, fault: Callable[[], None] | None = None) -> Fork:
    """Train in a fork, after `fault` was called there."""

    def work() -> None:
        if fault is not None:
            fault()
        distributed_utils.call_main(cfg, train.main)

    return Fork(work, log)


def _run(work: Callable[[], None], log: Path) -> None:
    code = 1
    try:
        _redirect(log)
        _forget_other_trainings()
        code = _exit_code(work)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)  # whatever happened: a fork that came back would go on as the tests


def _redirect(log: Path) -> None:
    os.setsid()
    file = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, force=True)
    sys.argv = ["fairseq-train"]
    training.install()  # as in a process of this name that imports the plugin
    torch.set_num_threads(1)


def _forget_other_trainings() -> None:
    """What a training leaves in its process: another test may have made one in the tests' own."""
    vars(preemption.REQUEST).update(vars(preemption.Request()))
    vars(checkpoint_utils.save_checkpoint).pop("best", None)
    for counted in ("best", "num_runs"):
        vars(train.should_stop_early).pop(counted, None)


def _exit_code(work: Callable[[], None]) -> int:
    try:
        work()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BaseException as error:
        if is_users_error(error):
            print(one_line(error), file=sys.stderr)
        else:
            traceback.print_exc()
        return 1
    return 0


def updates_in(checkpoint: Path) -> int:
    """The update after which a checkpoint was saved."""
    return torch.load(checkpoint)["optimizer_history"][-1]["num_updates"]


def weights(checkpoint: Path) -> dict[str, torch.Tensor]:
    """Model and optimizer state of a checkpoint, each tensor by its name."""
    state = torch.load(checkpoint)
    optimizer = state["last_optimizer_state"]
    moments = {
        f"{number}.{key}": value
        for number, kept in optimizer["state"].items()
        for key, value in kept.items()
    }
    masters = {f"{n}.master": value for n, value in enumerate(optimizer.get(MASTERS, []))}
    return state["model"] | moments | masters


def assert_same_weights(checkpoint: Path, other: Path) -> None:
    """Bit by bit."""
    ours, theirs = weights(checkpoint), weights(other)
    assert ours.keys() == theirs.keys()
    different = [name for name in ours if not torch.equal(ours[name], theirs[name])]
    assert not different, f"{checkpoint} and {other} differ in {different}"
