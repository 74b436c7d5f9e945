"""Turns cleaned trees into a parser's training data: words and symbols in fairseq's binary form.

    code_trees.py --train train.trees --valid valid.trees --test test.trees --output data-bin
    code_trees.py --also parsed.trees --train train.trees ...

Words become BPE subwords, learned from the training trees; with --coding words they stay whole, and
words rarer than --threshold become <unk>. Symbols are those of `trees.py linearize`, by default
with tags and labelled closing brackets. --also names trees that a parser made. They become
train1, which fairseq-train --upsample-primary N reads with N times train. `trees.py clean` first.

The folder has what `--task vaswani_parsing` reads (dict.words.txt, dict.symbols.txt,
train.words-symbols.words.bin and so on), the codes, and preprocessing.json for bundle.py.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import get_args

from checkout import Flags, run
from trees import write_sequences

from vaswani_plugin.files.outputs import new_data_folder, write_lines
from vaswani_plugin.files.parallel import process_file
from vaswani_plugin.text.binary import binarize, build_dictionary, write_dictionary
from vaswani_plugin.text.bpe_learning import learn_codes
from vaswani_plugin.text.coding import CODES, bpe_units
from vaswani_plugin.text.dictionary import dictionary_name
from vaswani_plugin.text.linearization import make_word_coding
from vaswani_plugin.text.settings import SETTINGS, SYMBOLS, WORDS, TreeCoding, TreeSettings


def line_encoder(coding: str, codes: str | None) -> Callable[[str], str]:
    """Returns the function from words joined by blanks to units."""
    encode = make_word_coding(coding, codes)
    return lambda line: encode(line.split(" "))


def code_trees(
    splits: dict[str, list[str]],
    settings: TreeSettings,
    output: Path,
    operations: int,
    threshold: int,
    workers: int,
) -> list[str]:
    """Writes the data folder; returns lines for people.

    `splits` are the files of each split; the dictionaries are made from `train` and `train1`.
    """
    report = []
    with new_data_folder(output) as (folder, parts):
        for split, files in splits.items():
            sides = (parts / f"{split}.{side}" for side in ("raw", SYMBOLS))
            write_sequences(files, *sides, settings.keep_tags, settings.label_closings)
        codes = str(folder / CODES) if settings.codes else None
        if codes:
            learn_codes([str(parts / "train.raw")], operations, codes, workers, exact=True)
        encode = partial(line_encoder, settings.coding, codes)
        for split in splits:
            process_file(encode, f"{parts}/{split}.raw", f"{parts}/{split}.{WORDS}", workers)
        words = WORDS, bpe_units(codes) if codes else (), threshold
        for side, also, least in (words, (SYMBOLS, (), 0)):
            train = [f"{parts}/{split}.{side}" for split in splits if split.startswith("train")]
            entries = build_dictionary(train, least, 1, workers, also)
            write_dictionary(entries, folder / dictionary_name(side))
            for split in splits:
                prefix = folder / f"{split}.{WORDS}-{SYMBOLS}.{side}"
                lines, _, unknown = binarize(f"{parts}/{split}.{side}", prefix, entries, workers)
                report.append(f"{split}.{side}: {lines:,} lines, {unknown:,} unknown symbols")
            report.append(f"dict.{side}.txt: {len(entries):,} entries")
        write_lines(folder / SETTINGS, [settings.to_json()])
    return [*report, str(output)]


def main(flags: Flags) -> None:
    for split in ("train", "valid", "test"):
        flags.add(f"--{split}", nargs="+", required=True, metavar="TREES", help=f"{split} trees")
    flags.add("--also", nargs="+", metavar="TREES", help="trees that a parser made, for training")
    flags.add("--output", type=Path, required=True, help="the folder to create")
    flags.add("--coding", choices=get_args(TreeCoding), default="bpe", help="tokens (default: bpe)")
    flags.number("--operations", 8000, "BPE merges (default: 8000)")
    flags.number("--threshold", 0, "rarer words: <unk> (default: 0; not with bpe)", 0)
    flags.add("--one-placeholder", action="store_true", help="write every tag as XX")
    flags.add("--plain-closings", action="store_true", help="write closing brackets as ), not )NP")
    flags.workers()
    args = flags.parse_args()
    splits = {"train": args.train, "valid": args.valid, "test": args.test}
    splits |= {"train1": args.also} if args.also else {}
    codes = CODES if args.coding == "bpe" else None
    settings = TreeSettings(args.coding, not args.one_placeholder, not args.plain_closings, codes)
    numbers = args.operations, args.threshold, args.workers
    print("\n".join(code_trees(splits, settings, args.output, *numbers)))


if __name__ == "__main__":
    run(main, __doc__)
