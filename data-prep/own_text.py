"""Cleans text of your own, splits it into train, valid and test, and reports what was dropped.

    own_text.py --pair de-hsb --train a.de a.hsb --output raw --report corpus.json
    own_text.py --pair de-hsb --train pairs.tsv.gz --test test.tsv --output raw --report corpus.json
    own_text.py --train book.txt --output raw --report corpus.json

A corpus is two files that correspond line by line, or one file with source <tab> target on each
line; without --pair it is one text, for a language model. Files are UTF-8, plain or .gz. Without
--valid or --test, that split is taken from the training text, which then has none of its sentences.

These pairs are dropped: an empty side; control characters; a side longer than --max-length; letters
on one side only; the same text on both sides; a ratio of lengths beyond --max-ratio; swapped sides;
repeated pairs; a sentence that is also in held-out text. If one of these rules, except for repeated
pairs, drops more than half of a file, the file is refused. Of a language model's text, empty lines,
control characters and repeated long lines are dropped.
"""

import argparse
from pathlib import Path
from typing import Any

import checkout  # noqa: F401

from vaswani_plugin.text.columns import PairFiles
from vaswani_plugin.text.messages import InputError, run
from vaswani_plugin.text.output_files import check_outputs, write_json
from vaswani_plugin.text.own_corpus import Inputs, OwnCorpus
from vaswani_plugin.text.own_lines import OwnLines
from vaswani_plugin.text.screening import PairRules


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pair", help="source and target language, such as de-hsb")
    for name, needed, help_text in (
        ("train", True, "training text"),
        ("valid", False, "validation text"),
        ("test", False, "test text"),
        ("mix-old", False, "older training text to add"),
        ("keep-out", False, "text that training must share no sentence with"),
    ):
        parser.add_argument(f"--{name}", nargs="+", required=needed, metavar="FILE", help=help_text)
    parser.add_argument(
        "--mix-ratio", type=float, help="with --mix-old: old pairs for each new pair (default: 1)"
    )
    for name in ("valid", "test"):
        parser.add_argument(
            f"--{name}-size",
            type=int,
            help="pairs to hold out (default: a twentieth, 50 to 2000, at most a tenth)",
        )
    parser.add_argument("--max-length", type=int, help="longest side in bytes (default: 1000)")
    parser.add_argument(
        "--max-ratio",
        type=float,
        help="drop a pair if a side is so many times longer than expected (default: 3)",
    )
    parser.add_argument(
        "--copies", choices=("drop", "keep"), help="pairs with equal sides (default: drop)"
    )
    parser.add_argument("--output", type=Path, required=True, help="folder of the splits to write")
    parser.add_argument("--report", required=True, help="JSON file to write")
    return parser.parse_args()


def prepare_pairs(args: argparse.Namespace) -> dict[str, Any]:
    """Writes the splits of a translation corpus; returns the report."""
    if args.mix_ratio is not None and not args.mix_old:
        raise InputError(f"--mix-ratio {args.mix_ratio:g}: goes with --mix-old FILE")
    source, _, target = args.pair.partition("-")
    if not source or not target or source == target:
        raise InputError(f"--pair {args.pair}: two different languages joined by '-', as in en-de")

    def files(paths: list[str] | None) -> PairFiles | None:
        return PairFiles(tuple(paths), (source, target)) if paths else None

    inputs = Inputs(
        files(args.train),
        files(args.valid),
        files(args.test),
        files(args.mix_old),
        1.0 if args.mix_ratio is None else args.mix_ratio,
        files(args.keep_out),
        args.valid_size,
        args.test_size,
    )
    rules = PairRules(
        1000 if args.max_length is None else args.max_length,
        3.0 if args.max_ratio is None else args.max_ratio,
        args.copies != "keep",
    )
    return OwnCorpus(inputs, rules, args.output).prepare()


def prepare_lines(args: argparse.Namespace) -> dict[str, Any]:
    """Writes the splits of a language model's text; returns the report."""
    for name in ("train", "valid", "test", "keep_out"):
        if len(getattr(args, name) or ("",)) != 1:
            raise InputError(
                f"--{name.replace('_', '-')}: a language model takes one file, not more"
            )
    for name in ("mix_old", "mix_ratio", "max_length", "max_ratio", "copies"):
        if getattr(args, name) is not None:
            raise InputError(f"--{name.replace('_', '-')}: goes with --pair")
    names = ("train", "valid", "test", "keep_out")
    train, valid, test, keep_out = ((getattr(args, name) or (None,))[0] for name in names)
    sizes = args.valid_size, args.test_size
    return OwnLines(train, valid, test, *sizes, args.output, keep_out).prepare()


def text_report(report: dict[str, Any]) -> str:
    """Formats the report for people."""
    unit = "lines" if len(report["sides"]) == 1 else "pairs"
    lines = []
    for name, found in report["files"].items():
        lines.append(f"{name}: {found['kept']:,} of {found['read']:,} {unit} kept")
        lines += [
            f"  dropped {entry['count']:,}: {rule} (first {entry['first']})"
            for rule, entry in found["dropped"].items()
        ]
    splits = ", ".join(f"{name} {count:,}" for name, count in report["splits"].items())
    return "\n".join([*lines, f"{unit}: {splits}"])


def main() -> None:
    """Command line."""
    args = parse_arguments()
    groups = args.train, args.valid, args.test, args.mix_old, args.keep_out
    inputs = [path for group in groups for path in group or ()]
    for path in inputs:
        if path == "-" or Path(path).is_fifo():
            raise InputError(f"{path}: a pipe can't be read twice: give a file")
    endings = dict.fromkeys(args.pair.split("-", 1)) if args.pair else ["txt"]
    splits = [
        args.output / f"{name}.{end}" for name in ("train", "valid", "test") for end in endings
    ]
    check_outputs("--output and --report", [*splits, args.report], inputs)
    for name in ("valid", "test"):
        size = getattr(args, f"{name}_size")
        if size is not None and size < 1:
            raise InputError(f"--{name}-size {size}: must be at least 1")
        if size is not None and getattr(args, name):
            raise InputError(f"--{name}-size {size}: leave it out with --{name} FILE")
    args.output.mkdir(parents=True, exist_ok=True)
    report = prepare_pairs(args) if args.pair else prepare_lines(args)
    write_json(args.report, report)
    print(text_report(report))


if __name__ == "__main__":
    run(main)
