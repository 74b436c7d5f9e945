"""Ends trainings at random moments and cuts off their last checkpoint; all must go on.

    python tests/faults/drive.py --points 200 --seed 1

A training of `vaswani_debug` is started, ended by a signal, perhaps left with half a checkpoint,
and started again, until it is complete. It must end bit by bit as an undisturbed one. Exit code 1
and the seed of the training when it doesn't.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from tests.faults.forks import (  # noqa: E402
    assert_same_weights,
    debug_config,
    make_data,
    start_training,
)
from vaswani_plugin.errors import EXIT_CODE_WHEN_PREEMPTED  # noqa: E402

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1)
FLAGS = ("--max-update", "28", "--save-interval-updates", "3", "--keep-interval-updates", "2")
LAST = "checkpoint_last.pt"


def train_disturbed(data: Path, folder: Path, rng: random.Random, points: int) -> int:
    """Train to the end in spite of at most `points` faults; return how many there were."""
    done, cfg = 0, debug_config(data, folder, *FLAGS)
    while True:
        run = start_training(cfg, folder.with_suffix(".log"))
        kind = rng.choice(SIGNALS)
        if done < points:
            time.sleep(rng.uniform(0.05, 1.5))
            os.kill(run.pid, kind)  # unwaited for, it is there even if it has ended
        code = run.wait()
        if code == 0:
            return done
        if code not in (-kind, EXIT_CODE_WHEN_PREEMPTED):
            raise AssertionError(f"exit code {code}\n{run.output()[-3000:]}")
        done += 1
        if (folder / LAST).exists() and rng.random() < 0.3:
            size = (folder / LAST).stat().st_size
            others = list(folder.glob("checkpoint_*_*.pt"))
            if others:  # from which it can go on
                os.truncate(folder / LAST, rng.randrange(size))


def main() -> int:
    """Disturb trainings until there were enough faults; 1 if one ends differently."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--points", type=int, default=200, help="faults in all")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    points, seed = 0, args.seed
    with tempfile.TemporaryDirectory() as work:
        data = make_data(Path(work))
        undisturbed = Path(work, "undisturbed")
        train_disturbed(data, undisturbed, random.Random(0), 0)
        while points < args.points:
            folder = Path(work, f"run{seed}")
            try:
                points += train_disturbed(data, folder, random.Random(seed), args.points - points)
                assert_same_weights(folder / LAST, undisturbed / LAST)
            except AssertionError as error:
                print(f"--seed {seed}, after {points} points: {error}")
                return 1
            seed += 1
    print(f"{points} points, {seed - args.seed} trainings, all ended as the undisturbed one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
