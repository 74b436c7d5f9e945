"""How much the tests notice: changes the code in one place, runs its tests, and counts.

    bash tests/mutation/run.sh --minutes 60 --seed 1

A mutant is one change of one file by an operator of cosmic-ray, drawn by --seed: a place, then an
operator that can change it. The tests of its room run, then its neighbours', those that name the
file first, until one fails; slow ones and other rooms' don't, so the share is a lower bound.
work/mutation/mutants.jsonl gets a line a mutant. Ends with 1 below --least.
"""

import argparse
import ast
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.provider import OperatorProvider

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "work" / "mutation"
# The tests of each room, beside tests/ROOM.
ROOMS = {
    "modules": ["tests/fairseq_plugin/models", "tests/fairseq_plugin/test_schedule.py"],
    "search": ["tests/fairseq_plugin/models", "tests/devices", "tests/inference"],
    "metrics": ["tests/cli", "tests/contracts/test_refusals.py"],
    "fairseq_plugin": ["tests/test_registration.py", "tests/faults", "tests/distributed"],
    "text": ["tests/data_prep", "tests/contracts"],
    "files": ["tests/data_prep", "tests/contracts"],
}
OF_SEARCH = [
    f"tests/search/test_{name}.py" for name in ("constraints", "options", "equals_fairseq")
]
ROOMS["fairseq_plugin"] = OF_SEARCH + ROOMS["fairseq_plugin"]
ROOMS["modules"] += ["tests/search/test_selection.py"]
# The first two need arguments. Without a decorator such as `torch.no_grad()` the results are the
# same, and so they are with `is` for `==` of small integers.
UNUSED = ("VariableReplacer", "VariableInserter", "RemoveDecorator", "_Is", "_IsNot")
PATIENCE = 900
"""Seconds after which a mutant counts as noticed."""


def annotations(text: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """From where to where a file has type annotations, which no run evaluates."""
    nodes: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.arg | ast.AnnAssign):
            nodes.append(node.annotation)
        if isinstance(node, ast.FunctionDef):
            nodes.append(node.returns)
    places = [(n.lineno, n.col_offset, n.end_lineno, n.end_col_offset) for n in nodes if n]
    return [((a, b), (c or 0, d or 0)) for a, b, c, d in places]


def sample(paths: list[Path], seed: int) -> Iterator[tuple[Path, str, int, str]]:
    """Files, operators, which of their places, and the changed text, in an order of the seed's."""
    rng, found = random.Random(seed), []
    for path in paths:
        text = path.read_text("utf-8")
        tree, skipped, places = get_ast(text), annotations(text), {}
        for name in OperatorProvider():
            operator = None if name.endswith(UNUSED) else OperatorProvider()[name]()
            nodes = ast_nodes(tree) if operator else ()
            starts = [start for node in nodes for start, _ in operator.mutation_positions(node)]
            for number, start in enumerate(starts):
                if not any(begin <= start < end for begin, end in skipped):
                    places.setdefault(start, []).append((path, name, number))
        found += places.values()
    rng.shuffle(found)
    for path, name, number in [rng.choice(mutants) for mutants in found]:
        text = path.read_text("utf-8")
        changed = mutate_code(text, OperatorProvider()[name](), number)
        try:
            same = ast.dump(ast.parse(changed)) == ast.dump(ast.parse(text))
        except SyntaxError:  # it takes the stars of {**a, b: c} for a power
            continue
        if not same:
            yield path, name, number, changed


def make_copy(folder: Path) -> Path:
    """A copy of the repository in which one worker changes files and runs tests."""
    shutil.rmtree(folder, ignore_errors=True)
    listed = subprocess.check_output(["git", "ls-files", "-zco", "--exclude-standard"], cwd=ROOT)
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def failure(folder: Path, path: Path) -> str:
    """The first test of a file's room that fails in a copy, those that name the file first."""
    room = path.relative_to(ROOT / "vaswani_plugin").parts[0]
    places = [folder / place for place in [f"tests/{room}", *ROOMS[room]]]
    files = [f for p in places for f in ([p] if p.is_file() else sorted(p.rglob("test_*.py")))]
    named = sorted(files, key=lambda f: path.stem not in f.name + f.read_text("utf-8"))
    command = [sys.executable, "-m", "pytest", "-xq", "-p", "no:xdist", "-p", "no:cacheprovider"]
    command += ["-m", "not slow and not gpu and not shared_data", *map(str, named)]
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    options = {"cwd": folder, "env": environment, "text": True, "start_new_session": True}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    try:
        printed, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return f"over {PATIENCE} s"
    lines = [line for line in printed.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return "" if process.returncode == 0 else (lines or [printed[-200:]])[0]


def main() -> int:
    """Try mutants until the time is over; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60, help="stop after these (60)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    parser.add_argument("--rooms", nargs="+", choices=list(ROOMS), default=list(ROOMS))
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="at a time (all cores)")
    parser.add_argument("--least", type=float, default=0.85, help="share to notice (0.85)")
    args = parser.parse_args()
    paths = [p for r in args.rooms for p in sorted((ROOT / "vaswani_plugin" / r).rglob("*.py"))]
    mutants = sample([path for path in paths if path.name != "__init__.py"], args.seed)
    ends, done, one_at_a_time = time.monotonic() + 60 * args.minutes, [], Lock()

    def work(folder: Path) -> None:
        while time.monotonic() < ends:
            with one_at_a_time:
                mutant = next(mutants, None)
            if mutant is None:
                return
            path, name, number, changed = mutant
            place = str(path.relative_to(ROOT))
            (folder / place).write_text(changed, "utf-8")
            entry = {"path": place, "operator": name, "number": number}
            done.append(entry | {"by": failure(folder, path)})
            shutil.copy2(path, folder / place)
            print(json.dumps(done[-1]), file=record, flush=True)
            noticed = sum(bool(each["by"]) for each in done)
            print(f"{noticed} of {len(done)} noticed: {done[-1]}", flush=True)

    WORK.mkdir(parents=True, exist_ok=True)
    with (WORK / "mutants.jsonl").open("a") as record, ThreadPoolExecutor(args.workers) as pool:
        list(pool.map(work, [make_copy(WORK / f"copy-{n}") for n in range(args.workers)]))
    return 0 if sum(bool(e["by"]) for e in done) >= args.least * len(done) > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
