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

The folder has what `--task language_modeling` reads (dict.txt, train.bin, train.idx and so on), the
codes, and preprocessing.json for bundle.py. It is created only when it is complete.
"""

import os
import shutil
from functools import partial
from pathlib import Path

import numpy as np
from checkout import at_least, parser, run

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.binary import binarize, build_dictionary, type_code
from vaswani_plugin.text.coding import (
    CODES,
    CODINGS,
    SEPARATOR,
    LineFunction,
    bpe_units,
    learn_codes,
    make_coding,
)
from vaswani_plugin.text.dictionary import (
    SPECIAL_SYMBOLS,
    TEXT_DICTIONARY,
    UNK,
    write_dictionary,
)
from vaswani_plugin.text.lines import read_pairs
from vaswani_plugin.text.outputs import new_data_folder, write_atomically
from vaswani_plugin.text.parallel import process_file
from vaswani_plugin.text.settings import SETTINGS, TextSettings

SPLITS = ("train", "valid", "test")


def encoder(coding: str, codes: str | None) -> LineFunction:
    return make_coding(coding, codes)[0]


def code_split(
    split: str, files: list[str], settings: TextSettings, parts: Path, workers: int
) -> str:
    """Codes a split; returns the path of the units. Two files become `article <sep> summary`."""
    codes = settings.codes and str(parts / settings.codes)
    coded = [str(parts / f"{split}.{number}") for number in range(len(files))]
    for source, target in zip(files, coded, strict=True):
        process_file(partial(encoder, settings.coding, codes), source, target, workers)
    if len(coded) == 1:
        return coded[0]
    joined = str(parts / f"{split}.joined")
    with write_atomically(joined) as write:
        for article, summary in read_pairs(*coded):
            units = article.split()[: settings.article_tokens]
            write(" ".join([*units, SEPARATOR, *summary.split()[: settings.summary_tokens]]))
    return joined


def code_text(
    splits: dict[str, list[str]],
    settings: TextSettings,
    output: Path,
    operations: int,
    min_frequency: int,
    threshold: int,
    padding_factor: int,
    workers: int,
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

    Returns:
        A line for people about each split.

    Raises:
        UserError: a file is empty or no text, two files don't correspond, or `output` holds other
            files.
        OSError: a file can't be read or written.
    """
    inputs: list[str | Path] = [path for files in splits.values() for path in files]
    with new_data_folder(output, inputs) as (folder, parts):
        if settings.codes:
            learn_codes(splits["train"], operations, min_frequency, parts, workers)
            shutil.copyfile(parts / CODES, folder / CODES)
        coded = {
            split: code_split(split, files, settings, parts, workers)
            for split, files in splits.items()
        }
        also = bpe_units(str(parts / CODES)) if settings.codes else ()
        entries = build_dictionary([coded["train"]], threshold, padding_factor, workers, also)
        write_dictionary(entries, folder / TEXT_DICTIONARY)
        rows = len(SPECIAL_SYMBOLS) + len(entries)
        report = []
        for split, path in coded.items():
            lines = binarize(path, folder / split, [symbol for symbol, _ in entries], workers)
            units = np.fromfile(folder / f"{split}.bin", dtype=type_code(rows))
            unknown = int(np.count_nonzero(units == UNK))
            report.append(f"{split}: {lines:,} lines, {len(units):,} units, {unknown:,} unknown")
        with write_atomically(folder / SETTINGS) as write:
            write(settings.to_json())
    return [*report, f"{output}: {rows:,} rows in the dictionary"]


def main() -> None:
    """Command line."""
    flags = parser(__doc__)
    add = flags.add_argument
    add("--coding", choices=CODINGS, required=True, help="kind of tokens")
    for split in SPLITS:
        add(f"--{split}", required=True, metavar="FILE", help="plain or .gz (summaries: PREFIX)")
    add("--output", type=Path, required=True, help="the folder to create")
    add("--summaries", action="store_true", help="the data are articles with summaries")
    add("--article-tokens", type=int, help="with --summaries: most tokens of the article")
    add("--summary-tokens", type=int, help="with --summaries: most tokens of the summary")
    add("--operations", type=int, default=8000, help="BPE merge operations (default: 8000)")
    add("--min-frequency", type=int, default=2, help="of a merged pair (default: 2)")
    add("--threshold", type=int, default=0, help="rarer words, characters: <unk> (default: 0)")
    add("--padding-factor", type=int, default=1, help="round rows up to a multiple (default: 1)")
    add("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: cores)")
    args = flags.parse_args()
    at_least(args, operations=1, min_frequency=1, padding_factor=1, workers=1)
    if args.threshold and args.coding == "bpe":
        raise UserError(f"--threshold {args.threshold}: has no effect with bpe: leave it out")
    lengths = args.article_tokens, args.summary_tokens
    if (None in lengths) == args.summaries or (not args.summaries and lengths != (None, None)):
        raise UserError("--summaries goes with --article-tokens N and --summary-tokens N")
    settings = TextSettings(args.coding, CODES if args.coding == "bpe" else None, *lengths)
    sides = (".article", ".summary") if args.summaries else ("",)
    splits = {split: [getattr(args, split) + side for side in sides] for split in SPLITS}
    names = ("operations", "min_frequency", "threshold", "padding_factor", "workers")
    numbers = {name: getattr(args, name) for name in names}
    report = code_text(splits, settings, args.output, **numbers)
    print("\n".join(report))


if __name__ == "__main__":
    run(main)
