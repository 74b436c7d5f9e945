"""What all drivers share: a job is read from a file, done in this process, and reported.

    run_NAME.py JOB

A driver passes its functions to `run_jobs`. JOB is a JSON file that peers_runs.py writes: `kind` is
train or decode, `report` names the file for the result. This file imports nothing but the standard
library and torch, because it runs in every peer's environment.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Job = dict[str, Any]
Translate = Callable[[list[str]], list[str]]
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
"""The symbols before the words of a dictionary, in fairseq's order; also those of our own ids."""


class Enough(BaseException):
    """The training has made its updates. No toolkit catches it by `except Exception`."""


class Watch:
    """Records the updates of a training and ends it by raising `Enough`.

    The time of an update is that since the end of the update before it, so that it includes the
    reading of its batch.

    Args:
        job: `warm_up` updates do not count; then `updates` more are made, or as many as it takes to
            see `target_tokens` (warm-up included) where that is given.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.rows: list[dict[str, float]] = []
        self.pending = self.seen = 0
        self.last = time.perf_counter(), time.process_time()
        self.peak = 0
        self.at_end: Callable[[], tuple[float, int]] | None = None
        """Saves the model; returns the negative log-likelihood of the validation set in nats, and
        its target tokens, ends of sentence included. Called where the job says `save`."""

    def watch_optimizers(self) -> None:
        """Record an update at the end of every step of any optimizer of PyTorch."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(lambda *_: self.update())

    def count(self, tokens: int) -> None:
        """Call for each batch with its target tokens, padding left out."""
        self.pending += tokens

    def update(self) -> None:
        """Call at the end of an update.

        Raises:
            Enough: it was the last one.
        """
        now = time.perf_counter(), time.process_time()
        row = {"seconds": now[0] - self.last[0], "cpu_seconds": now[1] - self.last[1]}
        self.rows.append(row | {"target": self.pending})
        self.seen += self.pending
        self.pending, self.last = 0, now
        wanted = self.job.get("target_tokens")
        done = len(self.rows) >= self.job["warm_up"] + self.job["updates"]
        if self.seen >= wanted if wanted else done:
            self.peak = peak_memory()
            raise Enough


def peak_memory() -> int:
    """Peak main memory of this process in bytes (Linux)."""
    with open("/proc/self/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def read_lines(path: str | Path) -> list[str]:
    """The lines of a file; only a line feed ends a line."""
    text = Path(path).read_text(encoding="utf-8")
    return text.removesuffix("\n").split("\n")


def words_of(dictionary: str) -> list[str]:
    """The entries of a dictionary of fairseq, without their counts."""
    return [line.rpartition(" ")[0] for line in read_lines(dictionary)]


def ids_of(dictionary: str) -> dict[str, int]:
    """Number of each symbol: `SPECIAL`, then the words."""
    return {word: n for n, word in enumerate((*SPECIAL, *words_of(dictionary)))}


def encode(lines: list[str], ids: dict[str, int]) -> list[list[int]]:
    """Ids of the subwords of each line, with the end of sentence."""
    end, unknown = ids["</s>"], ids["<unk>"]
    return [[ids.get(word, unknown) for word in line.split()] + [end] for line in lines]


def batches(lengths: list[int], max_tokens: int) -> Iterator[list[int]]:
    """Group sentences of like length: at most `max_tokens` positions a batch, padding included.

    Args:
        lengths: of each sentence, in tokens.
        max_tokens: largest number of sentences times the longest of them.
    """
    group: list[int] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and (len(group) + 1) * lengths[number] > max_tokens:
            yield group
            group = []
        group.append(number)
    if group:
        yield group


def endless_batches(lengths: list[int], max_tokens: int, seed: int) -> Iterator[list[int]]:
    """`batches` in random order, epoch after epoch."""
    shuffled, generator = list(batches(lengths, max_tokens)), random.Random(seed)
    while True:
        generator.shuffle(shuffled)
        yield from shuffled


def train(job: Job, train_it: Callable[[Job, Watch], None]) -> Job:
    """Train until `Enough`; the report has the updates and, where asked for, the validation."""
    watch = Watch(job)
    try:
        train_it(job, watch)
        raise SystemExit("the training ended before it had made all its updates")
    except Enough:
        report: Job = {"updates": watch.rows, "peak_bytes": watch.peak}
    if job["save"]:
        assert watch.at_end is not None
        report["nll"], report["valid_tokens"] = watch.at_end()
    return report


def decode(job: Job, load: Callable[[Job], Translate]) -> Job:
    """Translate the first lines of the test set: all at once, or one call a line.

    The first line is translated twice; the first time does not count.
    """
    lines = read_lines(job["text"]["test"][0])[: job["sentences"]]
    translate = load(job)
    if job["sentences"] > 1:
        translate(lines[:1])
    start, start_cpu = time.perf_counter(), time.process_time()
    if job["one"]:
        found = [translate([line])[0] for line in lines]
    else:
        found = translate(lines)
    seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    if len(found) != len(lines):
        raise SystemExit(f"{len(found)} translations of {len(lines)} lines")
    text = "".join(f"{line}\n" for line in found)
    Path(job["output"]).write_text(text, encoding="utf-8")
    tokens = sum(len(line.split()) for line in found)
    return {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "sentences": len(lines),
        "tokens": tokens,
        "peak_bytes": peak_memory(),
    }


def run_jobs(
    load: Callable[[Job], Translate], train_it: Callable[[Job, Watch], None] | None = None
) -> None:
    """Command line of a driver.

    Args:
        load: loads the model for a job; returns a function from lines of subwords to translations.
        train_it: trains and never returns: the watch ends it; None: the peer only decodes.
    """
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.argv = sys.argv[:1]  # toolkits read it
    if job["kind"] == "decode":
        report = decode(job, load)
    else:
        assert train_it is not None
        report = train(job, train_it)
    path = Path(job["report"])
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(report), encoding="utf-8")
    os.replace(part, path)
    # A thread that reads ahead may be inside PyTorch; Python's normal exit would abort there.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
