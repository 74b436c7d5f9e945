"""Turns text into a language model's training data: tokens in fairseq's binary form.

    code_text.py --coding bpe --train train.txt --valid valid.txt --test test.txt --output data-bin
    code_text.py --coding bpe --summaries --article-tokens 400 --summary-tokens 60 \\
        --train raw/train --valid raw/valid --test raw/test --output data-bin

The tokens are words (separated by spaces; words that the training text lacks become <unk>) or
characters, of Unicode's form NFC; or bpe subwords (learned from the raw training text; decoding
restores every line exactly). Each line is a sequence that ends with </s>.

With --summaries a split is a prefix of two files, PREFIX.article and PREFIX.summary, and a sequence
is `article <sep> summary` in form NFC, cut to --article-tokens and to --summary-tokens tokens.

The folder has what `--task language_modeling` reads (dict.txt, train.bin, train.idx and so on), the
codes, and preprocessing.json for bundle.py. It is created only when it is complete.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import get_args

from checkout import SPLITS, Flags, run

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import read_pairs, refuse_pipes
from vaswani_plugin.files.outputs import new_data_folder, write_lines
from vaswani_plugin.files.parallel import process_file
from vaswani_plugin.text.binary import binarize, build_dictionary, write_dictionary
from vaswani_plugin.text.bpe_learning import learn_codes
from vaswani_plugin.text.coding import CODES, SEPARATOR, bpe_units
from vaswani_plugin.text.dictionary import SPECIAL_SYMBOLS, TEXT_DICTIONARY
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import SETTINGS, Coding, TextSettings


def encoder(settings: TextSettings, folder: Path) -> Callable[[str], str]:
    """Returns the function from a raw line to units."""
    return Pipeline(settings, folder).encode


def joined(settings: TextSettings, pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yields the units of each article and its summary, both cut to the settings' lengths."""
    for article, summary in pairs:
        units = article.split()[: settings.article_tokens]
        yield " ".join([*units, SEPARATOR, *summary.split()[: settings.summary_tokens]])


def code_text(
    splits: dict[str, list[str]],
    settings: TextSettings,
    output: Path,
    operations: int,
    threshold: int,
    workers: int,
) -> list[str]:
    """Writes the data folder; returns a line for people about each split.

    `splits` are the raw files of each split, or those of its articles and its summaries.
    """
    with new_data_folder(output) as (folder, parts):
        codes = str(folder / CODES) if settings.codes else None
        if codes:
            learn_codes(splits["train"], operations, codes, workers, not settings.article_tokens)
        coded = {}
        for split, files in splits.items():
            sides = [f"{parts}/{split}.{number}" for number in range(len(files))]
            for source, side in zip(files, sides, strict=True):
                process_file(partial(encoder, settings, folder), source, side, workers)
            coded[split] = sides[0]
            if len(sides) == 2:
                coded[split] = f"{parts}/{split}"
                write_lines(coded[split], joined(settings, read_pairs(*sides)))
        also = bpe_units(codes) if codes else ()
        entries = build_dictionary([coded["train"]], threshold, 1, workers, also)
        write_dictionary(entries, folder / TEXT_DICTIONARY)
        report = []
        for split, path in coded.items():
            lines, units, unknown = binarize(path, folder / split, entries, workers)
            report.append(f"{split}: {lines:,} lines, {units:,} units, {unknown:,} unknown")
        write_lines(folder / SETTINGS, [settings.to_json()])
    return [*report, f"{output}: {len(SPECIAL_SYMBOLS) + len(entries):,} rows in the dictionary"]


def main(flags: Flags) -> None:
    flags.add("--coding", choices=get_args(Coding), required=True, help="kind of tokens")
    for split in SPLITS:
        flags.add(f"--{split}", required=True, metavar="FILE", help="with --summaries: a PREFIX")
    flags.add("--output", type=Path, required=True, help="the folder to create")
    flags.add("--summaries", action="store_true", help="the data are articles with summaries")
    flags.number("--article-tokens", None, "with --summaries: most tokens of the article")
    flags.number("--summary-tokens", None, "with --summaries: most tokens of the summary")
    flags.number("--operations", 8000, "BPE merge operations (default: 8000)")
    flags.number("--threshold", 0, "rarer words, characters become <unk>; not bpe", 0)
    flags.workers()
    args = flags.parse_args()
    lengths = args.article_tokens, args.summary_tokens
    if (None in lengths) == args.summaries or (not args.summaries and lengths != (None, None)):
        raise UserError("--summaries goes with --article-tokens N and --summary-tokens N")
    settings = TextSettings(args.coding, CODES if args.coding == "bpe" else None, *lengths)
    sides = (".article", ".summary") if args.summaries else ("",)
    splits = {split: [getattr(args, split) + side for side in sides] for split in SPLITS}
    refuse_pipes(splits["train"] if settings.codes else ())
    numbers = args.operations, args.threshold, args.workers
    print("\n".join(code_text(splits, settings, args.output, *numbers)))


if __name__ == "__main__":
    run(main, __doc__)
