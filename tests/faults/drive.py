"""Kills trainings, damages their files and fills their disk at random points; all must go on.

    python tests/faults/drive.py --points 200 --seed 1 --minutes 60

Each chain is one training of `vaswani_debug` on a toy corpus: started, disturbed, started again,
until it ends. Every start must begin with the last good save or later, the last must end bit by bit
as an undisturbed run does: weights, optimizer, validation losses. Exit code 1 when one doesn't;
`--seed S --chain N` repeats that chain alone.
"""

import argparse
import collections
import random
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from tests.faults.chain import PATIENCE, SETUPS, Chain  # noqa: E402
from tests.faults.forks import make_data  # noqa: E402

POINTS_A_CHAIN = 10


def train_undisturbed(setup: str, data: Path, folder: Path) -> Path:
    """The save folder of a run to the end."""
    chain = Chain(setup, data, folder, random.Random(0))
    _, codes = chain.run(None, 0)
    assert set(codes) == {0}, f"the undisturbed run ended with {codes}: {chain.log}-*"
    return chain.save_dir


def run_chain(chain: Chain, points: int, undisturbed: Path, report: collections.Counter) -> int:
    """Disturb one training up to `points` times; returns how often."""
    struck = 0
    while struck < points and (happened := chain.disturb()) is not None:
        struck += 1
        report[happened.split(" (")[0].rsplit(" ", 1)[0]] += 1
        print(f"    {happened}", flush=True)
    chain.finish(undisturbed)
    if struck < points and (happened := chain.disturb_average(undisturbed)):
        struck += 1
        report["averaging"] += 1
        print(f"    {happened}", flush=True)
    return struck


def drive(args: argparse.Namespace, work: Path) -> int:
    """All chains; returns the exit code."""
    began, struck, failed, number = time.monotonic(), 0, 0, args.chain or 0
    data, undisturbed = make_data(work), {}
    report: collections.Counter = collections.Counter()
    while struck < args.points and time.monotonic() - began < 60 * args.minutes:
        setup = list(SETUPS)[number % len(SETUPS)]
        if setup not in undisturbed:
            undisturbed[setup] = train_undisturbed(setup, data, work / f"whole {setup}")
        rng = random.Random(f"{args.seed} {number}")
        chain = Chain(setup, data, work / f"chain {number}", rng)
        print(f"chain {number}, {setup}, after {time.monotonic() - began:.0f} s:", flush=True)
        points = min(args.points - struck, rng.randint(POINTS_A_CHAIN // 2, POINTS_A_CHAIN))
        try:
            struck += run_chain(chain, points, undisturbed[setup], report)
            shutil.rmtree(chain.folder)
        except Exception:
            failed += 1
            struck += 1
            print(f"    FAILED: {traceback.format_exc()}    kept: {chain.folder}", flush=True)
        if args.chain is not None:
            break
        number += 1
    for kind, count in sorted(report.items()):
        print(f"{count:5d} {kind}")
    print(f"{struck} points in {time.monotonic() - began:.0f} s, {failed} chains failed")
    return 1 if failed or not struck else 0


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60, help="begin no chain after these")
    parser.add_argument("--chain", type=int, help="only this one")
    parser.add_argument("--work", type=Path, help="a new folder; default: a temporary one")
    args = parser.parse_args()
    work = args.work or Path(tempfile.mkdtemp(prefix="faults-"))
    work.mkdir(parents=True, exist_ok=True)
    print(f"working in {work}; each run may take {PATIENCE} s", flush=True)
    code = drive(args, work)
    if code == 0 and args.work is None:
        shutil.rmtree(work)
    return code


if __name__ == "__main__":
    sys.exit(main())
