"""Checks a parallel corpus and, on request, writes a cleaned copy.

    check_corpus.py train.en train.de
    check_corpus.py train.en train.de --clean clean.en clean.de --max-length 250 --max-ratio 1.5

The check fails on what would make a training silently wrong: sides of different length, an empty
file, an empty side, invalid UTF-8, a carriage return inside a line (fairseq ends the line there).
With --clean, lines that break a rule are dropped from both sides, and the report says how many
each rule removed; length and ratio are counted in words between white space.
"""

import argparse
import json
from collections import Counter

from vaswani_text.corpus_io import InputError, read_pairs, run, write_atomically


def problem(line: str) -> str | None:
    """What is wrong with one side by itself, or None."""
    if not line.strip():
        return "empty side"
    if "\r" in line:
        return "carriage return inside the line"
    return None


def broken_rule(left: str, right: str, max_length: int, max_ratio: float) -> str | None:
    """The first rule that a pair breaks, or None; lengths in words."""
    for line in (left, right):
        found = problem(line)
        if found:
            return found
    lengths = len(left.split()), len(right.split())
    if max(lengths) > max_length:
        return f"longer than {max_length} words"
    if max(lengths) > max_ratio * min(lengths):
        return f"length ratio over {max_ratio:g}"
    return None


def check(source: str, target: str) -> dict[str, int]:
    """Reads both files to the end; returns counts of lines, words and characters.

    Raises:
        InputError: the first problem, with file and line.
    """
    counts: Counter[str] = Counter()
    for number, (left, right) in enumerate(read_pairs(source, target), start=1):
        for path, line, side in ((source, left, "source"), (target, right, "target")):
            found = problem(line)
            if found:
                raise InputError(
                    f"{path}:{number}: {found}: run again with --clean OUT_SOURCE OUT_TARGET to "
                    "drop such lines from both sides"
                )
            words = len(line.split())
            counts[f"{side}_words"] += words
            counts[f"{side}_characters"] += len(line)
            counts[f"{side}_longest"] = max(counts[f"{side}_longest"], words)
        counts["lines"] += 1
    return dict(counts)


def clean(
    source: str, target: str, outputs: list[str], max_length: int, max_ratio: float
) -> dict[str, int | dict[str, int]]:
    """Writes the pairs that break no rule; returns counts read, kept and removed by rule.

    Raises:
        InputError: the corpus can't be read as pairs, or no pair is left.
    """
    removed: Counter[str] = Counter()
    read = kept = 0
    with write_atomically(outputs[0]) as write_left, write_atomically(outputs[1]) as write_right:
        for left, right in read_pairs(source, target):
            read += 1
            rule = broken_rule(left, right, max_length, max_ratio)
            if rule:
                removed[rule] += 1
                continue
            write_left(left)
            write_right(right)
            kept += 1
        if kept == 0:
            raise InputError(f"{source} and {target}: the rules leave no line: {dict(removed)}")
    return {"read": read, "kept": kept, "removed": dict(removed)}


def text_report(result: dict[str, int | dict[str, int]]) -> str:
    """The counts, one a line, for people."""
    lines = []
    for key, value in result.items():
        if isinstance(value, dict):
            lines += [f"removed, {rule}: {count}" for rule, count in value.items()]
        else:
            lines.append(f"{key.replace('_', ' ')}: {value}")
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", help="one side, plain or .gz")
    parser.add_argument("target", help="the other side")
    parser.add_argument("--clean", nargs=2, metavar=("OUT_SOURCE", "OUT_TARGET"))
    parser.add_argument("--max-length", type=int, default=250, help="words (default 250)")
    parser.add_argument(
        "--max-ratio", type=float, default=1.5, help="longer side over shorter (default 1.5)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    args = parser.parse_args()
    if args.max_length < 1:
        raise InputError(f"--max-length {args.max_length}: must be at least 1")
    if args.max_ratio < 1:
        raise InputError(f"--max-ratio {args.max_ratio:g}: must be at least 1")
    if args.clean and args.clean[0] == args.clean[1]:
        raise InputError(f"--clean {args.clean[0]}: the two outputs must differ")
    if args.clean:
        result = clean(args.source, args.target, args.clean, args.max_length, args.max_ratio)
    else:
        result = check(args.source, args.target)
    print(json.dumps(result) if args.format == "json" else text_report(result))


if __name__ == "__main__":
    run(main)
