"""A bundle whose model has learned its toy language: to write a sentence's words backwards."""

import subprocess
from pathlib import Path

from bundle import make_bundle, make_settings

from tests.conftest import PLUGIN, binarize, run_module, write_toy_corpus

TRAINING = (
    *("--task", "vaswani_translation", "--arch", "vaswani_debug", "--d-model", "32"),
    *("--max-tokens", "800", "--max-update", "300", "--dropout", "0", "--label-smoothing", "0"),
    *("--lr-scheduler", "fixed", "--lr", "0.004", "--num-workers", "0", "--cpu"),
    *("--disable-validation", "--no-epoch-checkpoints", "--no-progress-bar"),
)
SETTINGS = ["lowercase=false", "normalize_punctuation=false", "tokenizer=none", "subwords=none"]


class TrainedBundle:
    """The bundle and its data; making it takes some 15 seconds.

    Args:
        work: an empty folder.

    Attributes:
        folder: of the bundle.
        data: binarized data.
        text: `train.src`, `train.tgt` and so on.
    """

    def __init__(self, work: Path) -> None:
        self.folder, self.data, self.text = work / "model", work / "bin", work / "text"
        self.text.mkdir()
        write_toy_corpus(self.text)
        binarize(self.text, self.data)
        self._run("train", self.data, *TRAINING, "--save-dir", work / "saved")
        settings = make_settings("src-tgt", SETTINGS, self.data)
        make_bundle(work / "saved" / "checkpoint_last.pt", self.data, settings, self.folder)

    def lines(self, name: str) -> list[str]:
        """Those of a file of `text`."""
        return (self.text / name).read_text(encoding="utf-8").split("\n")[:-1]

    def _run(self, command: str, *args: object) -> subprocess.CompletedProcess:
        run = run_module(f"fairseq_cli.{command}", *args, "--user-dir", PLUGIN)
        assert run.returncode == 0, run.stderr
        return run
