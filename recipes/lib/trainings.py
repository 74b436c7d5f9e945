"""Functions for recipes with several trainings: folders, commands, resuming, means.

A training's folder has a file `key`, which lists everything that its result depends on, and, when
it is finished, `result.json`.
"""

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from statistics import fmean, stdev
from typing import Any

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.dictionary import languages_of
from vaswani_plugin.text.lines import read_json, read_lines
from vaswani_plugin.text.outputs import write_atomically
from vaswani_plugin.text.training_log import read_curves

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ["--user-dir", str(ROOT / "vaswani_plugin"), "--task", "vaswani_translation"]


def device_flags(gpus: int) -> list[str]:
    """Returns the flags for training on `gpus` GPUs of this machine; 0 means the CPU."""
    return ["--distributed-world-size", str(gpus)] if gpus else ["--cpu"]


def progress_of(recipe: str) -> Callable[[str], None]:
    """Returns a function that prints a progress line of a recipe on stderr."""

    def say(text: str) -> None:
        sys.stderr.write(f"{recipe}: {text}\n")  # one write, so that parallel lines don't mix
        sys.stderr.flush()

    return say


def dictionaries_of(data_bin: Path) -> list[Path]:
    """Returns the dictionaries in a folder of binarized data.

    Raises:
        UserError: it has none.
    """
    found = sorted(data_bin.glob("dict.*.txt"))
    if not found:
        raise UserError(f"{data_bin}: no dict.*.txt in it: is this binarized data?")
    return found


def subword_flag(data_bin: Path) -> str:
    """Returns the kind of subwords, which tells fairseq how to join them to words.

    Raises:
        UserError: the folder has no dictionary.
    """
    paths = dictionaries_of(data_bin)
    pieces = any(line.startswith("\u2581") for path in paths for line in read_lines(path))
    return "sentencepiece" if pieces else "subword_nmt"


def training_command(data_bin: Path, flags: list[str], folder: Path, gpus: int) -> list[str]:
    """Returns the command that trains in a folder, without checkpoints at the ends of epochs.

    flags: of the model and its training. gpus: those of this training; 0 means the CPU.
    """
    never = "1000000"  # epochs
    command = ["fairseq-train", str(data_bin), *PLUGIN, *flags]
    command += ["--save-dir", str(folder / "checkpoints"), "--no-epoch-checkpoints"]
    command += ["--save-interval", never, "--validate-interval", never]
    command += ["--no-progress-bar", "--log-format", "simple", "--log-interval", "50"]
    return [*command, *device_flags(gpus)]


def translation_command(
    data_bin: Path, checkpoint: Path, subset: str, search: list[str], post_process: str, gpus: int
) -> list[str]:
    """Returns the command that translates a subset ("valid" or "test") with a checkpoint.

    search: its flags. post_process: the kind of subwords (`subword_flag`). gpus: 0 means the CPU.
    """
    command = ["fairseq-generate", str(data_bin), *PLUGIN, "--gen-subset", subset]
    command += ["--path", str(checkpoint), *search, "--max-tokens", "8192", "--no-progress-bar"]
    command += ["--post-process", post_process]
    return command if gpus else [*command, "--cpu"]


def require_languages(data_bin: Path) -> tuple[str, str]:
    """Source and target language of binarized pairs.

    Raises:
        UserError: the folder has no pairs, or those of several languages.
    """
    languages = languages_of(data_bin)
    if languages is None:
        missing = "no train.SOURCE-TARGET.*.idx of one pair of languages"
        raise UserError(f"{data_bin}: {missing}: is this binarized data?")
    return languages


def last_validation(log: Path, updates: int = 0) -> dict[str, float]:
    """Reads the last validation in a training's log: `num_updates`, `ppl` and more.

    Raises:
        UserError: there is none, or it comes before so many updates.
    """
    curve = read_curves(read_lines(log), str(log)).get("valid", [])
    if not curve or curve[-1]["num_updates"] < updates:
        when = f"after {updates} updates" if updates else "at its end"
        raise UserError(f"{log}: no validation {when}; did the training end?")
    return curve[-1]


class Devices:
    """The devices of this machine, in equal shares for commands that run at the same time.

    Where the environment variable CUDA_VISIBLE_DEVICES names GPUs, only those are used.

    Args:
        parallel: number of shares.
        gpus: GPUs of all shares together, a multiple of `parallel`; 0 for the CPU.
        threads: CPU threads of each command.
    """

    def __init__(self, parallel: int, gpus: int, threads: int) -> None:
        self.parallel = parallel
        self.gpus_each = gpus // parallel
        self._shares: SimpleQueue[dict[str, str]] = SimpleQueue()
        present = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(gpus)))
        for number in range(parallel):
            first = number * self.gpus_each
            visible = ",".join(present.split(",")[first : first + self.gpus_each])
            share = {"OMP_NUM_THREADS": str(threads)}
            self._shares.put(share | ({"CUDA_VISIBLE_DEVICES": visible} if gpus else {}))

    @contextmanager
    def share(self) -> Iterator[dict[str, str]]:
        """Reserves a share, waiting for one; yields the environment variables that select it."""
        mine = self._shares.get()
        try:
            yield dict(os.environ) | mine
        finally:
            self._shares.put(mine)

    def map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """Calls `work` with each item, `parallel` at a time; returns the results in order.

        Raises:
            Exception: the first error of a call; the calls that had begun run to their end.
        """
        with ThreadPoolExecutor(self.parallel) as pool:
            running = [pool.submit(work, item) for item in items]
            try:
                return [future.result() for future in running]
            finally:
                for future in running:
                    future.cancel()


def begin(folder: Path, key: str, say: Callable[[str], None]) -> None:
    """Makes the folder of a training.

    An existing folder with another key is renamed to the first free FOLDER.1, FOLDER.2 and so on.

    Args:
        folder: of the training.
        key: all that its result depends on.
        say: prints a line.
    """
    begun = folder / "key"
    if begun.is_file() and begun.read_text(encoding="utf-8") == key + "\n":
        return
    if folder.exists():
        number = next(n for n in count(1) if not os.path.lexists(f"{folder}.{n}"))
        folder.rename(f"{folder}.{number}")
        say(f"{folder}: of other options or data: kept in {folder}.{number}; begins anew")
    folder.mkdir(parents=True)
    with write_atomically(begun) as write:
        write(key)


def finished(folder: Path, key: str) -> dict[str, Any] | None:
    """Reads a training's result; None if it is missing or has another key.

    Raises:
        UserError: the file is broken.
    """
    path = folder / "result.json"
    try:
        result = read_json(path, "delete it, and it is trained again")
    except FileNotFoundError:
        return None
    if not isinstance(result, dict):
        raise UserError(f"{path}: no training's result: delete it, and it is trained again")
    return result if result.get("key") == key else None


def execute(command: list[str], output: Path, environment: dict[str, str]) -> None:
    """Runs a command; its stdout and stderr are appended to `output`.

    Raises:
        UserError: the command failed; names the file and its last line.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    with open(output, "ab") as stream:
        # close_fds=False: a training inherits the folder's lock and holds it until it ends.
        done = subprocess.run(
            command, stdout=stream, stderr=stream, env=environment, close_fds=False
        )
    if done.returncode:
        last = output.read_text(encoding="utf-8", errors="replace").strip().split("\n")[-1]
        raise UserError(f"{output}: {command[0]} ended with {done.returncode}: {last[:300]}")


def over_seeds(values: list[float], digits: int = 1) -> str:
    """The mean of values, with their standard error where there are several."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    error = stdev(values) / math.sqrt(len(values))
    return f"{fmean(values):.{digits}f} \u00b1 {error:.{digits}f}"
