"""Measures our data preparation and the plain pipeline of sacremoses, subword-nmt and fairseq.

Four steps: normalize and tokenize; learn joint BPE codes and each language's vocabulary; apply them
with a vocabulary threshold; binarize. In each step ours runs first, then the plain commands, which
read the same files. Both must write the same files, byte for byte.

The corpus consists of all files train.SRC and train.TGT below --data (plain or .gz), repeated up to
--lines. Repeated text favours caches of words; with --lines below the number of distinct lines,
which is printed, no line is repeated. The plain tokenizing, applying and binarizing are measured on
--plain-lines lines and on a tenth of them, and extrapolated to all; learning reads all lines.
"""

import argparse
import filecmp
import os
import sys
from itertools import cycle, islice
from pathlib import Path

from measurement import ROOT, Measurement, measure
from preparation_steps import Pipelines

from vaswani_plugin import processor
from vaswani_plugin.errors import UserError, run
from vaswani_plugin.text.lines import read_lines, read_pairs
from vaswani_plugin.text.outputs import write_atomically, write_json

HELD_OUT = 500  # lines of the validation and test splits, which binarizing needs as well
STEPS = ("tokenize", "learn", "apply", "binarize")


def check(pipelines: Pipelines, step: str, lines: int) -> None:
    """Compare the files of both pipelines after a step.

    Raises:
        UserError: the files differ.
    """
    names = {
        "tokenize": [f"tok.{language}" for language in pipelines.pair],
        "learn": ["codes", *(f"vocabulary.{language}" for language in pipelines.pair)],
        "apply": [f"train.{language}" for language in pipelines.pair],
    }
    theirs, ours = pipelines.work / "plain", pipelines.work / "ours"
    if step == "binarize":
        # Plain had fewer lines than ours, so ours binarizes those lines once more.
        measure(0, *pipelines.our_binarize("plain", "compared"))
        theirs, ours = theirs / "data-bin", ours / "compared"
        names[step] = sorted(path.name for path in ours.iterdir())
    for name in names[step]:
        if step in ("tokenize", "apply"):
            same = same_beginning(theirs / name, ours / name, lines, step == "tokenize")
        else:
            same = filecmp.cmp(theirs / name, ours / name, shallow=False)
        if not same:
            raise UserError(f"{theirs / name} and {ours / name} differ: they must not")


def same_beginning(theirs: Path, ours: Path, count: int, blanks: bool) -> bool:
    """Whether theirs has `count` lines and they are the first of ours.

    Args:
        blanks: ignore additional blanks, which sacremoses leaves at the end of or within some
            lines; no later step depends on them.
    """
    mine = read_lines(ours)
    found = 0
    for line in read_lines(theirs):
        found += 1
        if (" ".join(filter(None, line.split(" "))) if blanks else line) != next(mine, None):
            return False
    return found == count


def copy_beginning(source: Path, count: int, output: Path) -> None:
    """Write the first `count` lines of a file to another."""
    with write_atomically(output) as write:
        for line in islice(read_lines(source), count):
            write(line)


def find_pairs(folder: Path, pair: tuple[str, str]) -> list[tuple[str, str]]:
    """Line pairs of every train.SRC with a train.TGT beside it, without line ends inside lines.

    Raises:
        UserError: there are none.
    """
    pairs: list[tuple[str, str]] = []
    for source in sorted(folder.rglob(f"train.{pair[0]}*")):
        target = source.with_name(source.name.replace(f".{pair[0]}", f".{pair[1]}", 1))
        if source.name in (f"train.{pair[0]}", f"train.{pair[0]}.gz") and target.is_file():
            pairs += read_pairs(str(source), str(target))
    if not pairs:
        raise UserError(f"--data {folder}: no train.{pair[0]}[.gz] with its train.{pair[1]}[.gz]")
    # Without lines that the pipelines treat differently: a lone carriage return ends a line for the
    # plain commands, and ours keeps empty lines.
    return [sides for sides in pairs if "\r" not in "".join(sides) and all(map(str.strip, sides))]


def write_corpus(pipelines: Pipelines, folder: Path, counts: dict[str, int]) -> int:
    """Write `counts[folder]` raw pairs to each folder; returns the number of distinct pairs."""
    pairs = find_pairs(folder, pipelines.pair)
    for side, language in enumerate(pipelines.pair):
        for name, count in counts.items():
            with write_atomically(pipelines.path(name, f"raw.{language}")) as write:
                for sides in islice(cycle(pairs), count):
                    write(sides[side])
    return len(pairs)


def extrapolated(full: Measurement, part: Measurement, lines: int) -> Measurement:
    """The cost of more lines, extrapolated linearly from two measurements.

    In this way the start-up time of a program is not multiplied.
    """

    def at(high: float, low: float) -> float:
        slope = max(0, high - low) / (full.lines - part.lines)
        return high + slope * (lines - full.lines)

    return Measurement(lines, at(full.wall, part.wall), at(full.cpu, part.cpu), full.peak)


def compare(pipelines: Pipelines, counts: dict[str, int]) -> dict[str, dict]:
    """Run both pipelines step by step; returns the figures of each step by its name."""
    figures: dict[str, dict] = {}
    for step in STEPS:
        for language in pipelines.pair:
            for folder in ("plain", "part") if step == "learn" else ():
                # From here on plain reads ours' files, so that later steps can be compared.
                tokens = pipelines.path("ours", f"tok.{language}")
                copy_beginning(tokens, counts[folder], pipelines.path(folder, tokens.name))
            if step == "binarize":
                units = pipelines.path("ours", f"train.{language}")
                copy_beginning(units, HELD_OUT, pipelines.path(f"held-out.{language}"))
        print(f"preparation: {step}, ours ...", file=sys.stderr, flush=True)
        ours = pipelines.ours(step, counts["ours"])
        print(f"preparation: {step}, plain ...", file=sys.stderr, flush=True)
        plain = pipelines.plain(step, counts["ours" if step == "learn" else "plain"])
        check(pipelines, step, plain.lines)
        if plain.lines < ours.lines:
            part = pipelines.plain(step, counts["part"], "part")
            plain = extrapolated(plain, part, ours.lines)
        figures[step] = {
            "ours": described(ours),
            "plain": described(plain),
            "wall_ratio": round(plain.wall / ours.wall, 2),
            "cpu_ratio": round(plain.cpu / ours.cpu, 2),
        }
    return figures


def described(each: Measurement) -> dict[str, float]:
    """A measurement for the report."""
    return {
        "pairs": each.lines,
        "wall_seconds": round(each.wall, 2),
        "cpu_seconds": round(each.cpu, 2),
        "pairs_per_second": round(each.lines / each.wall),
        "peak_mebibytes": round(each.peak / 2**20),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="preparation.sh",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    data = os.environ.get("VASWANI_DATA")
    parser.add_argument(
        "--data", type=Path, default=data, help="folder of the corpus (default: $VASWANI_DATA)"
    )
    parser.add_argument("--pair", default="en-de", help="languages (default: en-de)")
    parser.add_argument("--lines", type=int, default=1_000_000, help="pairs (default: 1,000,000)")
    parser.add_argument(
        "--plain-lines",
        type=int,
        default=100_000,
        help="pairs for the plain commands (default: 100,000)",
    )
    parser.add_argument(
        "--operations", type=int, default=37_000, help="BPE merges (default: 37,000)"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    parser.add_argument(
        "--work", type=Path, default=ROOT / "work" / "preparation", help="folder of all output"
    )
    args = parser.parse_args()
    if args.data is None or not args.data.is_dir():
        raise UserError(f"--data {args.data}: no such folder (or set VASWANI_DATA)")
    if min(args.lines, args.plain_lines) < 1000 or min(args.operations, args.workers) < 1:
        raise UserError("--lines, --plain-lines: at least 1000; --operations, --workers: 1")
    pair = tuple(args.pair.split("-"))
    if len(pair) != 2 or not all(pair):
        raise UserError(f"--pair {args.pair}: two languages joined by '-', as in en-de")
    plain_lines = min(args.plain_lines, args.lines)
    counts = {"ours": args.lines, "plain": plain_lines, "part": plain_lines // 10}
    pipelines = Pipelines(args.work, pair, args.workers, args.operations)
    distinct = write_corpus(pipelines, args.data, counts)
    figures = compare(pipelines, counts)
    report(args, figures, min(distinct, args.lines), plain_lines)


def report(args: argparse.Namespace, figures: dict, distinct: int, plain_lines: int) -> None:
    """Prints the table and writes WORK/preparation.json."""

    def total(whose: str, kind: str) -> float:
        return sum(step[whose][f"{kind}_seconds"] for step in figures.values())

    ratios = {
        kind: round(total("plain", kind) / total("ours", kind), 2) for kind in ("wall", "cpu")
    }
    result = {
        "benchmark": "preparation",
        "pairs": args.lines,
        "distinct_pairs": distinct,
        "plain_pairs": plain_lines,
        "operations": args.operations,
        "workers": args.workers,
        "identical": True,
        "machine": processor.description(),
        "steps": figures,
        "ratio": ratios,
    }
    write_json(args.work / "preparation.json", result)
    print(f"{'step':10}{'':7}{'pairs/s':>10}{'wall s':>9}{'CPU s':>9}{'peak MiB':>10}{'ratio':>8}")
    for step, each in figures.items():
        for whose in ("plain", "ours"):
            row = each[whose]
            print(
                f"{step:10}{whose:7}{row['pairs_per_second']:10,}{row['wall_seconds']:9}"
                f"{row['cpu_seconds']:9}{row['peak_mebibytes']:10,}"
                + (f"{each['wall_ratio']:8}" if whose == "ours" else "")
            )
    if plain_lines < args.lines:
        parts = f"{plain_lines // 10:,} and {plain_lines:,}"
        print(f"plain tokenize, apply, binarize: extrapolated from {parts} pairs")
    print("tokens, codes, vocabularies, BPE output and binarized data: byte-identical")
    print(
        f"preparation, {args.lines:,} pairs ({distinct:,} distinct), {args.workers} workers: "
        f"{ratios['wall']} times as fast as the plain pipeline ({ratios['cpu']} by CPU time): "
        f"{args.work / 'preparation.json'}"
    )


if __name__ == "__main__":
    run(main)
