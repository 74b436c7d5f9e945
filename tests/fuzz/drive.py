"""Broken and hostile files through every reader: no traceback, no code run, no hang, no escape.

    python tests/fuzz/drive.py --inputs 10000 --seed 1
    python tests/fuzz/drive.py --seed 1 --case 4711 --keep DIR

Case N of a seed is always the same: reader N modulo their number, with one file of it changed as
the seed and N say. A fault is printed with the command that repeats it alone; --keep leaves its
files in DIR. Ends with 1 where there was one.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / p) for p in ("", "data-prep", "tests/support", "tests/reference")]
sys.path.append(str(ROOT / "recipes" / "lib"))

import torch  # noqa: E402

from tests.fuzz.mutations import mutate  # noqa: E402
from tests.fuzz.payloads import CANARY, SECRET, bombs  # noqa: E402
from tests.fuzz.readers import Reader, readers  # noqa: E402
from tests.fuzz.samples import write_samples  # noqa: E402
from tests.fuzz.sandbox import Outcome, quiet, run_cases  # noqa: E402


class Fuzzer:
    """Runs cases in `folder`: samples/, and arena/work, in which the commands run.

    Args:
        folder: an empty one.
        seed: decides, with a case's number, on its file.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.seed = seed
        self.samples = folder / "samples"
        self.arena = folder / "arena"
        self.work = self.arena / "work"
        self.samples.mkdir()
        self.work.mkdir(parents=True)
        (self.arena / SECRET).write_text("nobody may read this\n")
        os.chdir(folder)
        write_samples(Path(self.samples.name))
        bombs()
        self.contents = [p.read_bytes() for p in sorted(self.samples.rglob("*")) if p.is_file()]

    def reader(self, number: int) -> Reader:
        """Of a case."""
        return readers()[number % len(readers())]

    def place(self, number: int, changed: bool = True) -> Reader:
        """Fills the work folder with a case's files and goes there."""
        reader = self.reader(number)
        os.chdir(self.arena)
        reader.copy_files(self.samples, self.work)
        os.chdir(self.work)
        if changed:
            rng = random.Random(f"{self.seed} {number}")
            content = (self.samples / reader.fuzzed).read_bytes()
            changed = mutate(rng, Path(reader.fuzzed).name, content, self.contents)
            Path(reader.fuzzed).write_bytes(reader.cut(changed))
        return reader

    def prepare(self, number: int) -> Callable[[], int]:
        """For `run_cases`."""
        random.seed(number)
        torch.manual_seed(number)
        return self.place(number).run

    def warm_up(self) -> None:
        """Runs every reader once on valid files, so that children find all modules loaded.

        Raises:
            AssertionError: a reader refuses its valid files: its cases would show nothing.
        """
        refused = []
        for number in range(len(readers())):
            reader = self.place(number, changed=False)
            with quiet(self.arena / "stderr"):
                try:
                    code = reader.run()
                except SystemExit as end:
                    code = end.code
            if code:
                told = (self.arena / "stderr").read_text("utf-8")
                refused.append(f"{reader.name} refuses its valid files: {code} {told}")
        assert not refused, "\n".join(refused)

    def run(self, numbers: list[int]) -> Iterator[tuple[int, Outcome, str | None]]:
        """Runs cases; yields each with its fault, None where all is as it should be."""
        by_reader = sorted(numbers, key=lambda n: (n % len(readers()), n))
        for number, outcome in run_cases(self.prepare, by_reader, self.work):
            fault = outcome.fault()
            if (self.arena / CANARY).exists():
                fault = f"the payload's code ran, in this case or one of the 50 before: {fault}"
                (self.arena / CANARY).unlink()
            yield number, outcome, fault


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=10_000, metavar="N", help="(default: 10000)")
    parser.add_argument("--seed", type=int, default=1, help="(default: 1)")
    parser.add_argument(
        "--case", type=int, nargs="+", metavar="N", help="these alone, with what they print"
    )
    parser.add_argument("--reader", default="", metavar="TEXT", help="those whose names hold this")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="copy the files of faults there")
    args = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of a set is in some samples
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    sys.dont_write_bytecode = True
    warnings.simplefilter("default")
    numbers = args.case or list(range(args.inputs))
    with tempfile.TemporaryDirectory(prefix="vaswani-fuzz-") as folder:
        fuzzer = Fuzzer(Path(folder), args.seed)
        if not args.case:
            fuzzer.warm_up()
            print(f"{len(readers())} readers take their valid files", flush=True)
        start, refused, faults = time.monotonic(), 0, Counter()
        chosen = [n for n in numbers if args.reader in fuzzer.reader(n).name]
        for number, outcome, fault in fuzzer.run(chosen):
            refused += outcome.code != 0 and fault is None
            if args.case:
                print(f"{' '.join(fuzzer.reader(number).arguments)}\n{outcome.errors}", end="")
            if fault:
                faults[fuzzer.reader(number).name] += 1
                again = f"--seed {args.seed} --case {number}"
                print(f"{fuzzer.reader(number).name}: {fault}\n    {again}", flush=True)
                if args.keep:
                    fuzzer.place(number)
                    shutil.copytree(fuzzer.work, args.keep / str(number), dirs_exist_ok=True)
        os.chdir(ROOT)
    seconds = time.monotonic() - start
    taken = len(chosen) - refused - faults.total()
    print(
        f"{len(chosen)} files through {len(readers())} readers in {seconds:.0f} s: "
        f"{taken} taken, {refused} refused, {faults.total()} faults"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
