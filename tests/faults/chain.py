"""One training that is disturbed again and again, and must end as if nothing had happened."""

import argparse
import os
import random
import re
import signal
from pathlib import Path

import torch

from tests.faults.forks import (
    Fork,
    as_worker,
    assert_same_weights,
    debug_config,
    start_training,
    updates_in,
)
from tests.faults.injected import KINDS, Fault, damage_at_random, draw, install
from vaswani_plugin.cli import average
from vaswani_plugin.errors import EXIT_CODE_WHEN_PREEMPTED as EXIT_CODE

PATIENCE = 600
"""Seconds in which any run ends, or hangs."""

# A worker that ends while the others look for it leaves them to whoever started them.
IN_ANY_WORKER = ("step", "optimizer", "validation")
IN_ONE_OF_SEVERAL = (*IN_ANY_WORKER, "rename", "write", "copy", "full")

TO_THE_END = ("--max-update", "40", "--log-interval", "100")
INTERVALS = (*TO_THE_END, "--save-interval-updates", "5", "--keep-interval-updates", "2")
SETUPS = {
    "intervals": (1, (*INTERVALS, "--keep-last-epochs", "2")),
    "last only": (1, (*TO_THE_END, "--no-epoch-checkpoints")),
    "two workers": (2, (*INTERVALS, "--no-epoch-checkpoints")),
    "data loaders": (1, (*INTERVALS, "--num-workers", "1")),
}
"""Workers, and flags."""


def run_average(folder: Path, output: Path) -> None:
    """`vaswani average` of the last two intervals."""
    flags = {"last": None, "last_updates": 2, "best": None, "format": "json"}
    average.run(argparse.Namespace(inputs=[folder], output=output, **flags))


class Chain:
    """A training and what has happened to it.

    Args:
        setup: a key of `SETUPS`.
        data: the binarized corpus.
        folder: where all goes; empty.
        rng: draws the faults.
    """

    def __init__(self, setup: str, data: Path, folder: Path, rng: random.Random) -> None:
        self.workers, self.flags = SETUPS[setup]
        self.data, self.folder, self.rng = data, folder, rng
        self.save_dir, self.log = folder / "checkpoints", folder / "log"
        self.whole: dict[Path, bytes] = {}  # what the damaged files held
        self.broken: dict[Path, bytes] = {}  # what they hold
        self.saved = 0  # the update of the last save that the log tells of
        self.starts = 0
        folder.mkdir(parents=True)

    def disturb(self) -> str | None:
        """One point: a run with a fault, perhaps damaged files after it, all of it checked.

        Returns:
            What happened; None when the training was over before the fault came.
        """
        fault = draw(self.rng, IN_ONE_OF_SEVERAL if self.workers > 1 else KINDS)
        victim = self.rng.randrange(self.workers) if fault.kind in IN_ANY_WORKER else 0
        came, codes = self.run(fault, victim)
        if not came:
            assert codes == [0] * self.workers, f"{fault} did not come, exit codes {codes}"
            return None
        self._check_end(fault, victim, codes)
        return "; ".join([str(fault), *self._damage()])

    def finish(self, undisturbed: Path) -> None:
        """Train to the end and compare with the run that nothing disturbed."""
        _, codes = self.run(None, 0)
        assert codes == [0] * self.workers, f"the last run ended with {codes}"
        ours, theirs = self.save_dir / "checkpoint_last.pt", undisturbed / "checkpoint_last.pt"
        assert_same_weights(ours, theirs)
        for key in ("val_loss", "best", "train_iterator"):
            values = [torch.load(path)["extra_state"][key] for path in (ours, theirs)]
            assert values[0] == values[1], f"{key}: {values}"

    def run(self, fault: Fault | None, victim: int) -> tuple[bool, list[int]]:
        """Start the training and wait for its end.

        Returns:
            Whether the fault came, and the workers' exit codes.
        """
        self.starts += 1
        expected, marker = self._least_update(), self.folder / f"struck-{self.starts}"
        runs = self._start(fault, victim, marker)
        codes = [run.wait(PATIENCE) for run in runs]
        log = runs[0].output()
        if expected is None and "there is no good one in its folder" in log:
            assert 1 in codes, codes
            for path, content in self.whole.items():
                path.write_bytes(content)
            self.broken.clear()
            return self.run(fault, victim)
        self._check_start(log, expected or 0)
        return marker.exists(), codes

    def _start(self, fault: Fault | None, victim: int, marker: Path) -> list[Fork]:
        cfg = debug_config(self.data, self.save_dir, *self.flags)
        runs = []
        for rank in range(self.workers):
            own = cfg
            if self.workers > 1:
                own = as_worker(cfg, rank, self.workers, self.folder / f"meeting-{self.starts}")
            struck = fault is not None and rank == victim
            log = self.log.with_name(f"log-{rank}")
            strike = (lambda: install(fault, marker)) if struck else None
            runs.append(start_training(own, log, strike))
        return runs

    def _least_update(self) -> int | None:
        """What the next start has to begin with, at least; None: there are only damaged files."""
        files = list(self.save_dir.glob("checkpoint*.pt"))
        good = [path for path in files if not self._is_broken(path)]
        if not good:
            return None if files else 0
        held = max(map(updates_in, good))
        assert self.broken or held >= self.saved, f"update {self.saved} was saved and is gone"
        return held

    def _is_broken(self, path: Path) -> bool:
        return path in self.broken and path.read_bytes() == self.broken[path]

    def _check_start(self, log: str, expected: int) -> None:
        loaded = re.search(r"Loaded checkpoint (\S+) \(epoch \d+ @ (\d+) updates\)", log)
        began = int(loaded[2]) if loaded else 0
        if loaded or "No existing checkpoint found" in log:
            assert began >= expected, f"began with update {began}, {expected} was saved"
        saves = re.findall(r"Saved checkpoint \S+ \(epoch \d+ @ (\d+) updates", log)
        if saves:
            self.saved = int(saves[-1])

    def _check_end(self, fault: Fault, victim: int, codes: list[int]) -> None:
        if fault.kind == "full":
            assert set(codes) == {1}, codes
        elif fault.number.name == "SIGKILL":
            others = codes[:victim] + codes[victim + 1 :]
            assert codes[victim] == -fault.number, codes
            assert all(code in (0, 1) for code in others), codes
        else:
            # asked in its last update, a training is over; before it listens, it just ends
            expected = {EXIT_CODE, 0} | ({-fault.number} if fault.kind == "clock" else set())
            assert len(set(codes)) == 1 and codes[0] in expected, codes

    def _damage(self) -> list[str]:
        """Perhaps damage one or two checkpoints, the last one first of all."""
        files = sorted(self.save_dir.glob("checkpoint*.pt"), reverse=True)
        done = []
        for path in self.rng.sample(files, min(len(files), self.rng.choice([0, 0, 0, 1, 1, 2]))):
            if self.rng.random() < 0.5:
                path = self.save_dir / "checkpoint_last.pt"
            if path.exists() and not self._is_broken(path):
                # checkpoint_previous.pt is the last one by another name until that is replaced
                names = [name for name in files if name.samefile(path)]
                self.whole |= dict.fromkeys(names, path.read_bytes())
                stamp = path.stat()
                done.append(damage_at_random(path, self.rng))
                self.broken |= dict.fromkeys(names, path.read_bytes())
                # a disk that forgets doesn't touch the times
                os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        return done

    def disturb_average(self, undisturbed: Path) -> str | None:
        """Kill `vaswani average`, have it done again, compare with the average of `undisturbed`.

        Returns:
            What happened; None where there is nothing to average.
        """
        inputs = list(self.save_dir.glob("checkpoint_*_*.pt"))
        if not inputs or any(map(self._is_broken, inputs)):
            return None
        fault = Fault(self.rng.choice(["write", "replace"]), signal.SIGKILL, 1, self.rng.random())
        output, theirs = self.folder / "averaged.pt", self.folder / "theirs.pt"

        def killed() -> None:
            install(fault, self.folder / "struck-average")
            run_average(self.save_dir, output)

        assert Fork(killed, self.log).wait(PATIENCE) == -signal.SIGKILL
        if output.exists():
            torch.load(output)  # whole or not there
        assert Fork(lambda: run_average(self.save_dir, output), self.log).wait(PATIENCE) == 0
        run_average(undisturbed, theirs)
        means, others = torch.load(output)["model"], torch.load(theirs)["model"]
        assert all(torch.equal(means[name], others[name]) for name in others)
        return f"averaging: {fault}"
