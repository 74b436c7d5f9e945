"""fairseq-train by one worker or several, forked from the test's process.

Nothing has to be imported again, so that a training of a hundred small updates takes seconds.
"""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from fairseq.file_io import PathManager
from fairseq.tasks.fairseq_task import FairseqTask

import vaswani_plugin
from tests.support.commands import Fork, import_fairseq, run_program

import_fairseq()

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
    forks = [
        Fork(_work, [*common, "--distributed-rank", str(rank)], meeting, apart and rank > 0)
        for rank in range(workers)
    ]
    ended = [fork.wait(SECONDS) for fork in forks]
    record = meeting.with_name("losses.json")
    losses = json.loads(record.read_text()) if record.exists() else []
    log = "".join(done.stdout + done.stderr for done in ended)
    return Training(max(abs(done.returncode) for done in ended), losses, folder, log)


def _work(flags: list[str], meeting: Path, apart: bool) -> None:
    losses: list[float] = []
    _record_losses(losses)
    if apart:
        PathManager.isfile = staticmethod(lambda path: False)
    run_program(["-m", "fairseq_cli.train", *flags])
    if flags[-1] == "0":  # rank 0 knows the losses of all
        meeting.with_name("losses.json").write_text(json.dumps(losses))


def _record_losses(losses: list[float]) -> None:
    """Append each update's loss, which fairseq's log gives with three decimals only."""
    original = FairseqTask.reduce_metrics

    def reduce_metrics(task, outputs, criterion):
        sums = [sum(float(output[key]) for output in outputs) for key in ("loss", "sample_size")]
        losses.append(sums[0] / sums[1])
        original(task, outputs, criterion)

    FairseqTask.reduce_metrics = reduce_metrics
