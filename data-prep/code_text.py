"""Turns text into a language model's training data: tokens in fairseq's binary form.

    code_text.py --coding bpe --operations 8000 --train train.txt --valid valid.txt \\
        --test test.txt --output data-bin
    code_text.py --coding bpe --summaries --article-tokens 400 --summary-tokens 60 \\
        --train raw/train --valid raw/valid --test raw/test --output data-bin

The tokens are words (separated by spaces; words that the training text lacks become <unk>), bpe
subwords (learned from the raw training text; decoding restores every line exactly) or characters.
Each line is a sequence that ends with </s>.

With --summaries a split is a prefix of two files, PREFIX.article and PREFIX.summary, and a sequence
is `article <sep> summary`. The article is cut to --article-tokens tokens, the summary to
--summary-tokens.

With --like the tokens and their numbers are those of a bundle, to continue training its model.

The folder has what `--task language_modeling` reads (dict.txt, train.bin, train.idx and so on), the
codes, and preprocessing.json for bundle.py. It is created only when it is complete.
"""

import argparse
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import checkout  # noqa: F401
import numpy as np

from vaswani_plugin.text.binary import (
    SPECIAL_SYMBOLS,
    UNKNOWN,
    binarize,
    build_dictionary,
    read_dictionary,
    type_code,
    write_dictionary,
)
from vaswani_plugin.text.coding import (
    CODES,
    CODINGS,
    SEPARATOR,
    bpe_units,
    learn_codes,
    make_coding,
)
from vaswani_plugin.text.corpus_io import read_pairs
from vaswani_plugin.text.data_folder import new_data_folder
from vaswani_plugin.text.messages import InputError, run
from vaswani_plugin.text.output_files import write_atomically
from vaswani_plugin.text.parallel import process_file
from vaswani_plugin.text.settings import (
    SETTINGS,
    TEXT_DICTIONARY,
    TextSettings,
    read_settings,
)

SPLITS = ("train", "valid", "test")
TEXT = "text, plain or .gz (with --summaries: PREFIX)"


def encoder(coding: str, codes: str | None) -> Callable[[str], str]:
    """Returns the function from a raw line to its units."""
    return make_coding(coding, codes)[0]


def join_summaries(coded: list[str], settings: TextSettings, output: str) -> None:
    """Joins a coded file of articles and one of summaries to lines `article <sep> summary`.

    Articles and summaries are cut to the lengths in `settings`.

    Raises:
        InputError: the files differ in length.
    """
    with write_atomically(output) as write:
        for article, summary in read_pairs(*coded):
            units = article.split()[: settings.article_tokens]
            write(" ".join([*units, SEPARATOR, *summary.split()[: settings.summary_tokens]]))


def code_split(
    split: str, files: list[str], settings: TextSettings, parts: Path, workers: int
) -> str:
    """Codes a split's file (with summaries, its two files); returns the path of the units."""
    codes = settings.codes and str(parts / settings.codes)
    coded = [str(parts / f"{split}.{number}") for number in range(len(files))]
    for source, target in zip(files, coded, strict=True):
        process_file(partial(encoder, settings.coding, codes), source, target, workers)
    if len(coded) == 1:
        return coded[0]
    joined = str(parts / f"{split}.joined")
    join_summaries(coded, settings, joined)
    return joined


def count_units(prefix: Path, rows: int) -> tuple[int, int]:
    """Counts the units of a binary file, including line ends, and the unknown units among them."""
    units = np.memmap(f"{prefix}.bin", dtype=type_code(rows), mode="r")
    return len(units), int(np.count_nonzero(units == UNKNOWN))


def code_text(
    splits: dict[str, list[str]],
    settings: TextSettings,
    output: Path,
    operations: int,
    min_frequency: int,
    threshold: int,
    padding_factor: int,
    workers: int,
    like: Path | None = None,
) -> list[str]:
    """Writes the data folder into a temporary folder and moves it into place.

    Args:
        splits: by split, its raw file, or its files of articles and of summaries.
        settings: the content of preprocessing.json.
        output: the folder to make.
        operations: number of BPE merges.
        min_frequency: BPE does not merge pairs of units that are rarer than this.
        threshold: rarer units become <unk>; not used with BPE.
        padding_factor: the number of rows of the dictionary becomes a multiple of it.
        workers: number of processes.
        like: a bundle whose codes and dictionary are used, or None to make new ones.

    Returns:
        A line for people about each split.

    Raises:
        InputError: a file is empty or no text, two files don't correspond, or `output` holds other
            files.
        OSError: a file can't be read or written.
    """
    inputs: list[str | Path] = [path for files in splits.values() for path in files]
    if like is not None:
        inputs.append(like)
    with new_data_folder(output, inputs) as (folder, parts):
        if settings.codes:
            if like is None:
                learn_codes(splits["train"], operations, min_frequency, parts, workers)
            else:
                shutil.copyfile(like / CODES, parts / CODES)
            shutil.copyfile(parts / CODES, folder / CODES)
        coded = {
            split: code_split(split, files, settings, parts, workers)
            for split, files in splits.items()
        }
        if like is None:
            also = bpe_units(str(parts / CODES)) if settings.codes else ()
            entries = build_dictionary([coded["train"]], threshold, padding_factor, workers, also)
        else:
            entries = read_dictionary(like / TEXT_DICTIONARY, 1)
        write_dictionary(entries, folder / TEXT_DICTIONARY)
        rows = len(SPECIAL_SYMBOLS) + len(entries)
        report = []
        for split, path in coded.items():
            lines = binarize(path, folder / split, [symbol for symbol, _ in entries], workers)
            units, unknown = count_units(folder / split, rows)
            report.append(f"{split}: {lines:,} lines, {units:,} units, {unknown:,} unknown")
        with write_atomically(folder / SETTINGS) as write:
            write(settings.to_json())
    return [*report, f"{output}: {rows:,} rows in the dictionary"]


DEFAULTS = {
    "operations": (8000, "BPE merge operations"),
    "min_frequency": (2, "least frequency of a merged pair"),
    "threshold": (0, "replace rarer words or characters by <unk>"),
    "padding_factor": (1, "round the rows of the dictionary up to a multiple of N"),
}
"""By flag, for tokens that are made here: its default and its help."""


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--coding", choices=CODINGS, help="kind of tokens; needed without --like")
    parser.add_argument("--like", type=Path, metavar="BUNDLE", help="use its tokens")
    for split in SPLITS:
        parser.add_argument(f"--{split}", required=True, metavar="FILE", help=TEXT)
    parser.add_argument("--output", type=Path, required=True, help="the folder to create")
    parser.add_argument(
        "--summaries", action="store_true", help="the data are articles with summaries"
    )
    for side in ("article", "summary"):
        what = f"with --summaries: most tokens of the {side}"
        parser.add_argument(f"--{side}-tokens", type=int, metavar="N", help=what)
    for name, (default, what) in DEFAULTS.items():
        flag, what = f"--{name.replace('_', '-')}", f"{what} (default: {default})"
        parser.add_argument(flag, type=int, metavar="N", help=what)
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)"
    )
    return parser.parse_args()


def check_arguments(args: argparse.Namespace) -> None:
    """Raises InputError if the options don't fit together."""
    if (args.coding is None) == (args.like is None):
        raise InputError(f"give either --coding ({', '.join(CODINGS)}) or --like BUNDLE")
    for name in ("operations", "min_frequency", "padding_factor", "workers"):
        if (value := getattr(args, name)) is not None and value < 1:
            raise InputError(f"--{name.replace('_', '-')} {value}: must be at least 1")
    for flag, value in (("operations", args.operations), ("min-frequency", args.min_frequency)):
        if value is not None and args.coding in ("words", "characters"):
            raise InputError(f"--{flag} {value}: goes with --coding bpe")
    if args.threshold and args.coding == "bpe":
        raise InputError("--threshold: BPE has no unknown units; leave it out")
    both = args.article_tokens is not None and args.summary_tokens is not None
    neither = args.article_tokens is None and args.summary_tokens is None
    if args.like is not None:
        for name in DEFAULTS:
            if getattr(args, name) is not None:
                flag = f"--{name.replace('_', '-')}"
                raise InputError(f"{flag}: leave it out with --like, whose tokens are used")
    if args.summaries and not both or not args.summaries and not neither:
        raise InputError("--summaries goes with --article-tokens N and --summary-tokens N")


def bundle_settings(folder: Path) -> TextSettings:
    """Reads the settings of a language model's bundle.

    Raises:
        InputError: the folder is no such bundle, or its codes file is not named `CODES`.
    """
    settings = read_settings(folder)
    if not isinstance(settings, TextSettings) or settings.codes not in (None, CODES):
        raise InputError(f"--like {folder}: no bundle of a language model as bundle.py makes it")
    return replace(settings, beam=None)


def main() -> None:
    """Command line."""
    args = parse_arguments()
    check_arguments(args)
    sides = (".article", ".summary") if args.summaries else ("",)
    splits = {split: [getattr(args, split) + side for side in sides] for split in SPLITS}
    if args.like is None:
        codes = CODES if args.coding == "bpe" else None
        settings = TextSettings(args.coding, codes, args.article_tokens, args.summary_tokens)
    else:
        settings = bundle_settings(args.like)
        lengths = args.article_tokens, args.summary_tokens
        if lengths != (settings.article_tokens, settings.summary_tokens):
            raise InputError(
                f"--like {args.like}: its --article-tokens and --summary-tokens are "
                f"{settings.article_tokens} and {settings.summary_tokens}, not {lengths[0]} and "
                f"{lengths[1]} (None: it makes no summaries): give the same"
            )
    numbers = (
        default if getattr(args, name) is None else getattr(args, name)
        for name, (default, _) in DEFAULTS.items()
    )
    report = code_text(splits, settings, args.output, *numbers, args.workers, args.like)
    print("\n".join(report))


if __name__ == "__main__":
    run(main)
