"""fairseq-train in forks, which start in a second: one worker or several, each with its fault."""

import json
import logging
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch._dynamo  # noqa: F401 the first optimizer imports it: not anew in each fork
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq_cli import train as command
from fairseq_flags import training_config
from omegaconf import DictConfig, open_dict

from tests.support import commands
from vaswani_plugin.fairseq_plugin import preemption
from vaswani_plugin.fairseq_plugin.patches.precision import MASTERS

DEBUG = (
    *("--task", "vaswani_translation", "--arch", "vaswani_debug", "--max-tokens", "100"),
    *("--warmup-updates", "20", "--num-workers", "0", "--cpu", "--no-progress-bar"),
    *("--log-interval", "1", "--ddp-backend", "legacy_ddp"),
)
"""Seven updates an epoch on the toy corpus, each in milliseconds, with dropout."""


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


class TrainingFork(commands.Fork):
    """One whose end is a number, and which tells what it printed after its end, too."""

    ended: subprocess.CompletedProcess | None = None

    def wait(self, timeout: float = 300) -> int:
        """The exit code, negative for a signal."""
        self.ended = super().wait(timeout)
        return self.ended.returncode

    def output(self) -> str:
        """What it has printed, errors at the end."""
        return self.ended.stdout + self.ended.stderr if self.ended else super().output()


def start_training(cfg: DictConfig, fault: Callable[[], None] | None = None) -> TrainingFork:
    """Train in a fork, after `fault` was called there."""
    return TrainingFork(_train, cfg, fault)


def _train(cfg: DictConfig, fault: Callable[[], None] | None) -> None:
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, force=True)
    sys.argv = ["fairseq-train"]
    commands.install_plugin("fairseq_cli.train")
    # What a training leaves in its process: another test may have made one in the tests' own.
    vars(preemption.REQUEST).update(vars(preemption.Request()))
    vars(checkpoint_utils.save_checkpoint).pop("best", None)
    for counted in ("best", "num_runs"):
        vars(command.should_stop_early).pop(counted, None)
    if fault is not None:
        fault()
    distributed_utils.call_main(cfg, command.main)


@dataclass(frozen=True)
class Training:
    """What came of it; `losses` are nats a token of each update, unrounded, for all workers."""

    code: int
    losses: list[float]
    folder: Path
    log: str

    def weights(self) -> dict[str, torch.Tensor]:
        """Those of the last checkpoint."""
        return torch.load(self.folder / "checkpoint_last.pt")["model"]


def train(
    folder: Path, data: Path, *flags: object, workers: int = 1, apart: bool = False
) -> Training:
    """Train by some workers, or go on; `apart`: the second one sees no checkpoint of the first."""
    more = ("--cpu", "--disable-validation", "--no-progress-bar", "--log-interval", "1")
    cfg = training_config(*map(str, flags), *more).copy()
    cfg.task.data, cfg.checkpoint.save_dir = str(data), str(folder)
    meeting = Path(tempfile.mkdtemp()) / "workers"
    record = meeting.with_name("losses.json")

    def prepare(rank: int) -> None:
        if rank == 0:  # it knows the losses of all
            _record_losses(record)
        elif apart:
            PathManager.isfile = staticmethod(lambda path: False)

    runs = [
        start_training(
            as_worker(cfg, rank, workers, meeting) if workers > 1 else cfg,
            lambda rank=rank: prepare(rank),
        )
        for rank in range(workers)
    ]
    codes = [abs(run.wait()) for run in runs]
    losses = json.loads(record.read_text()) if record.exists() else []
    return Training(max(codes), losses, folder, "".join(run.output() for run in runs))


def _record_losses(record: Path) -> None:
    """Write each update's loss, which fairseq's log gives with three decimals only."""
    original, losses = FairseqTask.reduce_metrics, []

    def reduce_metrics(task, outputs, criterion):
        sums = [sum(float(output[key]) for output in outputs) for key in ("loss", "sample_size")]
        losses.append(sums[0] / sums[1])
        record.write_text(json.dumps(losses))
        original(task, outputs, criterion)

    FairseqTask.reduce_metrics = reduce_metrics


def updates_in(checkpoint: Path) -> int:
    """The update after which a checkpoint was saved."""
    return torch.load(checkpoint)["optimizer_history"][-1]["num_updates"]


def weights(checkpoint: Path) -> dict[str, torch.Tensor]:
    """Model and optimizer state of a checkpoint, each tensor by its name."""
    state = torch.load(checkpoint)
    optimizer = state["last_optimizer_state"]
    moments = {f"{n}.{k}": x for n, kept in optimizer["state"].items() for k, x in kept.items()}
    masters = {f"{n}.master": value for n, value in enumerate(optimizer.get(MASTERS, []))}
    return state["model"] | moments | masters


def assert_same_weights(checkpoint: Path, other: Path) -> None:
    """Bit by bit."""
    ours, theirs = weights(checkpoint), weights(other)
    assert ours.keys() == theirs.keys()
    different = [name for name in ours if not torch.equal(ours[name], theirs[name])]
    assert not different, f"{checkpoint} and {other} differ in {different}"
