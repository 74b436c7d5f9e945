"""Turns a parallel corpus of subwords or words into fairseq's binary form.

    binarize.py --pair en-de --train bpe/train --valid bpe/valid --test bpe/test --output data-bin
    binarize.py --pair en-fr --train tok/train --valid tok/valid --test tok/test \\
        --output data-bin --source-rows 160000 --target-rows 80000

The first makes one joint dictionary, for subwords. The second makes a dictionary for each language,
of its most frequent words, as Sutskever et al. (2014) do; all other words become <unk>.

Reads PREFIX.en and PREFIX.de of each split. Writes the same files, byte for byte, as
`fairseq-preprocess` with --joined-dictionary, or with --nwordssrc and --nwordstgt, but no log, and
is several times faster. The output folder is created only when it is complete.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import checkout  # noqa: F401

from vaswani_plugin.text.binary import (
    SPECIAL_SYMBOLS,
    build_dictionary,
    read_dictionary,
    write_dictionary,
)
from vaswani_plugin.text.binary import binarize as binarize_file
from vaswani_plugin.text.data_folder import new_data_folder
from vaswani_plugin.text.messages import InputError, run
from vaswani_plugin.text.parallel import count_lines

SPLITS = ("train", "valid", "test")


def check_split(split: str, prefix: str, pair: tuple[str, str]) -> int:
    """Checks that both sides of a split exist and have equally many lines; returns the number.

    Raises:
        InputError: a side is missing or empty, or the sides differ in length.
    """
    paths = [f"{prefix}.{language}" for language in pair]
    for path in paths:
        if not Path(path).is_file():
            raise InputError(f"--{split} {prefix}: {path} does not exist")
    source, target = (count_lines(path) for path in paths)
    if source != target:
        raise InputError(
            f"{paths[0]} and {paths[1]} differ in length ({source} and {target} lines): they must "
            "correspond line by line"
        )
    if not source:
        raise InputError(f"{paths[0]} and {paths[1]}: both files are empty")
    return source


def binarize(
    prefixes: dict[str, str],
    pair: tuple[str, str],
    output: Path,
    make_entries: Callable[[list[str]], list[list[tuple[str, int]]]],
    workers: int,
) -> dict[str, int]:
    """Writes dictionaries and splits into a temporary folder and moves it into place.

    Args:
        prefixes: by split, the prefix of its files.
        pair: source and target language.
        output: the folder to make.
        make_entries: returns the symbols and counts of each language's dictionary, or of one for
            both, for the training files.
        workers: number of processes.

    Returns:
        The number of lines of each split, and `types`, the number of rows of the dictionary with
        its special symbols; `types.LANGUAGE` for each language where there are two dictionaries.

    Raises:
        InputError: a file is missing or invalid, or `output` holds other files.
    """
    files = (f"{prefix}.{language}" for prefix in prefixes.values() for language in pair)
    with new_data_folder(output, files) as (folder, _):
        report = {split: check_split(split, prefix, pair) for split, prefix in prefixes.items()}
        train = [f"{prefixes['train']}.{language}" for language in pair]
        dictionaries = make_entries(train)
        is_joint = len(dictionaries) == 1
        for language, entries in zip(pair, dictionaries * (2 if is_joint else 1), strict=True):
            symbols = [symbol for symbol, _ in entries]
            rows = "types" if is_joint else f"types.{language}"
            report[rows] = len(SPECIAL_SYMBOLS) + len(symbols)
            write_dictionary(entries, folder / f"dict.{language}.txt")
            for split, prefix in prefixes.items():
                name = f"{split}.{pair[0]}-{pair[1]}.{language}"
                binarize_file(f"{prefix}.{language}", folder / name, symbols, workers)
    return report


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pair", required=True, help="source and target, such as en-de")
    for split in SPLITS:
        parser.add_argument(
            f"--{split}",
            required=True,
            metavar="PREFIX",
            help=f"{split} files, without the ending .LANG",
        )
    parser.add_argument("--output", type=Path, required=True, help="the folder to create")
    parser.add_argument(
        "--dictionary",
        metavar="FILE",
        help="use this dictionary, such as wordpiece.py's, instead of counting the training text",
    )
    parser.add_argument(
        "--threshold",
        type=int,
        default=0,
        metavar="N",
        help="replace subwords rarer than N in the training text by <unk> (default: 0, none)",
    )
    for side in ("source", "target"):
        parser.add_argument(
            f"--{side}-rows",
            type=int,
            metavar="N",
            help=f"a {side} dictionary of its own, of the most frequent words: N rows at most, the "
            "special symbols included, before --padding-factor rounds up; both sides need one",
        )
    parser.add_argument(
        "--padding-factor",
        type=int,
        default=8,
        metavar="N",
        help="round the number of rows, special symbols included, up to a multiple of N (default: "
        "8); 40960 gives the paper's 40,960 rows, if the dictionary has no more",
    )
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)"
    )
    return parser.parse_args()


def check_rows(args: argparse.Namespace) -> tuple[int, int] | None:
    """Returns --source-rows and --target-rows, or None where one joint dictionary is to be made.

    Raises:
        InputError: only one of them is given, or --dictionary too, or one leaves no row to words.
    """
    rows = args.source_rows, args.target_rows
    if rows == (None, None):
        return None
    if None in rows:
        raise InputError("--source-rows and --target-rows go together: give both or neither")
    if args.dictionary:
        raise InputError("--dictionary is a joint one: leave it out with --source-rows")
    least = len(SPECIAL_SYMBOLS) + 1
    for flag, number in zip(("--source-rows", "--target-rows"), rows, strict=True):
        if number < least:
            raise InputError(f"{flag} {number}: must be at least {least}, for one word")
    return rows


def main() -> None:
    """Command line."""
    args = parse_arguments()
    source, _, target = args.pair.partition("-")
    if not source or not target or source == target:
        raise InputError(f"--pair {args.pair}: two different languages joined by '-', as in en-de")
    if args.padding_factor < 1 or args.workers < 1:
        raise InputError("--padding-factor and --workers must be at least 1")
    if args.dictionary and args.threshold:
        raise InputError("--threshold counts the training text: leave it out with --dictionary")

    rows = check_rows(args)

    def make_entries(train: list[str]) -> list[list[tuple[str, int]]]:
        if args.dictionary:
            return [read_dictionary(args.dictionary, args.padding_factor)]
        counting = args.threshold, args.padding_factor, args.workers
        if rows is None:
            return [build_dictionary(train, *counting)]
        sides = zip(train, rows, strict=True)
        return [build_dictionary([path], *counting, most_rows=most) for path, most in sides]

    prefixes = {split: getattr(args, split) for split in SPLITS}
    report = binarize(prefixes, (source, target), args.output, make_entries, args.workers)
    print(", ".join(f"{key} {value}" for key, value in report.items()) + f": {args.output}")


if __name__ == "__main__":
    run(main)
