"""How much the tests notice: changes the code in one place, runs its tests, and counts.

    bash tests/mutation/run.sh --minutes 60 --seed 1 --work WORK
    bash tests/mutation/run.sh --list 5 --rooms search        # shows mutants, runs nothing

Each mutant is one change of one file of `modules/`, `search/`, `metrics/`, `fairseq_plugin/` or
`text/` (`mutants.py`), drawn by --seed. The tests of its room run on it, those that name its file
first, and stop at the first failure. A mutant that no test notices has survived.
WORK/mutants.jsonl gets a line a mutant, and a run with the same WORK and seed goes on behind them.
The slow tests, the other rooms' and the recipes' are not run, so the share that is printed is a
lower bound.

Exit code 1: less than --least of the mutants were noticed, or a room's tests fail without a change.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from threading import Lock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.mutation.mutants import Mutant, sample  # noqa: E402

# The tests of each room, beside tests/ROOM.
ROOMS = {
    "modules": [
        *(
            "tests/fairseq_plugin/models/test_equals_fairseq.py",
            "tests/fairseq_plugin/models/test_recurrent.py",
        ),
        "tests/fairseq_plugin/test_schedule.py",  # of modules/schedule.py
    ],
    "search": [
        "tests/fairseq_plugin/models/test_incremental.py",
        "tests/devices/test_search_waits.py",
    ],
    "metrics": ["tests/cli"],
    "fairseq_plugin": [],
    "text": ["tests/data_prep"],
}
RUNS_A_RECIPE = "tests/data_prep/test_preparation_benchmark.py"
"""Left out: a recipe makes an environment for the copy that it lies in."""
PATIENCE = 4  # times as long as the unchanged code's tests; then the mutant counts as noticed


def files_of(room: str) -> list[str]:
    """The Python files of a room, relative to the repository."""
    found = sorted((ROOT / "vaswani_plugin" / room).glob("*.py"))
    return [str(path.relative_to(ROOT)) for path in found if path.name != "__init__.py"]


def room_of(path: str) -> str:
    """The room in which a file lies."""
    return Path(path).parent.name


def tests_of(room: str) -> list[str]:
    """All test files of a room."""
    places = [ROOT / "tests" / room, *(ROOT / place for place in ROOMS[room])]
    files = [f for p in places if p.exists() for f in ([p] if p.is_file() else p.glob("test_*.py"))]
    return sorted({str(f.relative_to(ROOT)) for f in files} - {RUNS_A_RECIPE})


def in_order(path: str) -> tuple[list[str], list[str]]:
    """The tests of a file's room: those that name the file, then the others."""
    stem, room = Path(path).stem, room_of(path)
    first, others = [], []
    for test in tests_of(room):
        named = f"{room}.{stem}" in (ROOT / test).read_text("utf-8") or stem in Path(test).stem
        (first if named else others).append(test)
    return first, others


class Copy:
    """A copy of the repository in which one worker changes files and runs tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if folder.exists():
            shutil.rmtree(folder)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)

    def run(self, tests: list[str], seconds: float) -> tuple[str, str]:
        """Run tests to the first failure; returns passed, failed or late, and what they printed."""
        if not tests:
            return "passed", ""
        environment = os.environ | {
            "PYTHONPATH": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:xdist"]
        command += ["-p", "no:cacheprovider", "-m", "not slow and not gpu and not shared_data"]
        process = subprocess.Popen(
            command + tests,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # so that what a test started ends with it
        )
        try:
            printed, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "late", f"over {seconds:.0f} s"
        return ("passed" if process.returncode in (0, 5) else "failed"), printed

    def attempt(self, mutant: Mutant, seconds: float) -> dict:
        """Change the file, run its tests, change it back."""
        changed, began = self.folder / mutant.path, time.monotonic()
        changed.write_text(mutant.source(ROOT), "utf-8")
        try:
            for tests in in_order(mutant.path):
                outcome, printed = self.run(tests, seconds)
                if outcome != "passed":
                    break
        finally:
            shutil.copy2(ROOT / mutant.path, changed)
        failures = [line for line in printed.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return {
            **asdict(mutant),
            "noticed": outcome != "passed",
            "by": (failures or [printed[-200:]])[0] if outcome != "passed" else "",
            "seconds": round(time.monotonic() - began, 1),
        }


def change(mutant: Mutant) -> str:
    """The changed lines, as a diff has them."""
    before = (ROOT / mutant.path).read_text("utf-8").splitlines()
    after = mutant.source(ROOT).splitlines()
    pairs = [(a, b) for a, b in zip(before, after, strict=False) if a != b]
    return "\n".join(f"    - {a.strip()}\n    + {b.strip()}" for a, b in pairs[:3])


def identity(entry: dict) -> tuple:
    """What makes a mutant the same one in two runs."""
    return entry["path"], entry["operator"], entry["occurrence"]


def patience_of(room: str, copy: Copy, work: Path) -> float:
    """Seconds after which a mutant of the room counts as noticed, by what its tests take.

    The tests run once without a change; WORK/seconds.json keeps what they took for later runs.

    Raises:
        SystemExit: the tests fail without a change.
    """
    path = work / "seconds.json"
    seconds = json.loads(path.read_text("utf-8")) if path.exists() else {}
    if room not in seconds:
        began = time.monotonic()
        outcome, printed = copy.run(tests_of(room), 3600)
        if outcome != "passed":
            sys.exit(f"{room}: the tests fail without a change:\n{printed[-2000:]}")
        seconds[room] = round(time.monotonic() - began, 1)
        path.write_text(json.dumps(seconds), "utf-8")
        print(f"{room}: all tests pass in {seconds[room]:.0f} s", flush=True)
    return 30 + PATIENCE * seconds[room]


def drive(args: argparse.Namespace) -> int:
    """Try mutants until the time is over; returns the exit code."""
    deadline = time.monotonic() + 60 * args.minutes
    log = args.work / "mutants.jsonl"
    args.work.mkdir(parents=True, exist_ok=True)
    done = (
        [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []
    )
    known = {identity(entry) for entry in done}
    paths = [path for room in args.rooms for path in files_of(room)]
    drawn = sample(ROOT, paths, args.count, args.seed)
    mutants = (mutant for mutant in drawn if identity(asdict(mutant)) not in known)
    copies = [Copy(args.work / f"copy-{number}") for number in range(args.workers)]

    patience = {room: patience_of(room, copies[0], args.work) for room in args.rooms}
    one_at_a_time = Lock()

    def attempt_many(copy: Copy) -> None:
        while time.monotonic() < deadline:
            with one_at_a_time:
                mutant = next(mutants, None)
            if mutant is None:
                return
            entry = copy.attempt(mutant, patience[room_of(mutant.path)])
            with one_at_a_time:
                done.append(entry)
                print(json.dumps(entry), file=record, flush=True)
                if not entry["noticed"]:
                    print(
                        f"survived: {mutant.path}:{mutant.start[0]}\n{change(mutant)}", flush=True
                    )

    with ThreadPoolExecutor(args.workers) as pool, log.open("a", encoding="utf-8") as record:
        list(pool.map(attempt_many, copies))  # raises what a worker raised
    return report(done, args.least)


def report(done: list[dict], least: float) -> int:
    """Print the share of each room and of all; returns the exit code."""
    if not done:
        print("no mutant was tried: give more --minutes", file=sys.stderr)
        return 1
    for room in ROOMS:
        mine = [entry for entry in done if room_of(entry["path"]) == room]
        if mine:
            print(f"{room:8s} {share(mine)}")
    print(f"{'all':8s} {share(done)}")
    return 0 if sum(entry["noticed"] for entry in done) >= least * len(done) else 1


def share(entries: list[dict]) -> str:
    """How many mutants were noticed, as text."""
    noticed = sum(entry["noticed"] for entry in entries)
    return f"{noticed:5d} of {len(entries):5d} noticed, {noticed / len(entries):.1%}"


def main() -> int:
    """Parse the flags and do it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=ROOT / "work" / "mutation", metavar="DIR")
    parser.add_argument("--minutes", type=float, default=60, help="stop after these (%(default)s)")
    parser.add_argument("--count", type=int, default=10**6, help="at most so many mutants (all)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (%(default)s)")
    parser.add_argument("--rooms", nargs="+", choices=list(ROOMS), default=list(ROOMS))
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), metavar="N")
    parser.add_argument("--least", type=float, default=0.85, help="share to notice (%(default)s)")
    parser.add_argument("--list", type=int, metavar="N", help="show N mutants, run nothing")
    args = parser.parse_args()
    if args.list:
        paths = [path for room in args.rooms for path in files_of(room)]
        for mutant in sample(ROOT, paths, args.list, args.seed):
            print(f"{mutant.path}:{mutant.start[0]}: {mutant.operator}\n{change(mutant)}")
        return 0
    return drive(args)


if __name__ == "__main__":
    sys.exit(main())
