"""fairseq-train by one worker or several, forked from the test's process.

Nothing has to be imported again, so that a training of a hundred small updates takes seconds.
"""

import json
import logging
import multiprocessing
import os
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

import torch
import torch._dynamo  # noqa: F401 the first optimizer imports it: not anew in each fork
from fairseq.file_io import PathManager
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq_cli import train as fairseq_train

import vaswani_plugin

vaswani_plugin.register()

PLUGIN = Path(vaswani_plugin.__file__).parent
SECONDS = 240  # none takes so long, unless workers wait for one another without end


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


def train(folder: Path, *flags: object, workers: int = 1, apart: bool = False) -> Training:
    """Train, or go on with what is in `folder`, without a validation.

    Args:
        folder: of the checkpoints and logs.
        flags: of fairseq-train, the data folder first.
        workers: processes that share each update.
        apart: the second worker sees no checkpoint, as on a node that doesn't share the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    meeting = Path(tempfile.mkdtemp(dir=folder)) / "workers"
    common = [*map(str, flags), "--user-dir", str(PLUGIN), "--cpu", "--disable-validation"]
    common += ["--no-progress-bar", "--log-interval", "1", "--save-dir", str(folder)]
    if workers > 1:
        common += ["--distributed-world-size", str(workers), "--distributed-no-spawn"]
        common += ["--distributed-init-method", f"file://{meeting}"]
    processes = []
    for rank in range(workers):
        own = [*common, "--distributed-rank", str(rank)]
        record, fork = meeting.with_name(f"{rank}"), multiprocessing.get_context("fork")
        processes.append(fork.Process(target=_work, args=(own, record, apart and rank > 0)))
        processes[-1].start()
    for process in processes:
        process.join(SECONDS)
        process.kill()
        process.join()
    log = "".join(meeting.with_name(f"{rank}.log").read_text() for rank in range(workers))
    found = meeting.with_name("0.json")
    losses = json.loads(found.read_text()) if found.exists() else []
    return Training(max(abs(p.exitcode) for p in processes), losses, folder, log)


def _work(flags: list[str], record: Path, apart: bool) -> None:
    """One worker: a process that ends here."""
    code, losses = 1, []
    with open(record.with_suffix(".log"), "w") as log:
        sys.stdout = sys.stderr = log
        logging.basicConfig(stream=log, level=logging.INFO, force=True)
        try:
            torch.set_num_threads(1)
            _record_losses(losses)
            if apart:
                PathManager.isfile = staticmethod(lambda path: False)
            sys.argv = ["fairseq-train", *flags]
            fairseq_train.cli_main()
            record.with_suffix(".json").write_text(json.dumps(losses))
            code = 0
        except BaseException:
            traceback.print_exc()
        log.flush()
        os._exit(code)


def _record_losses(losses: list[float]) -> None:
    """Append each update's loss, which fairseq's log gives with three decimals only."""
    original = FairseqTask.reduce_metrics

    def reduce_metrics(task, outputs, criterion):
        sums = [sum(float(output[key]) for output in outputs) for key in ("loss", "sample_size")]
        losses.append(sums[0] / sums[1])
        original(task, outputs, criterion)

    FairseqTask.reduce_metrics = reduce_metrics
