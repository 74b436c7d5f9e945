"""Turns a parallel corpus of subwords or words into fairseq's binary form.

    binarize.py --pair en-de --train bpe/train --valid bpe/valid --test bpe/test --output data-bin
    binarize.py --pair en-fr --train tok/train --valid tok/valid --test tok/test \\
        --output data-bin --source-rows 160000 --target-rows 80000

The first makes one joint dictionary, for subwords, the second one for each language, of its most
frequent words, as Sutskever et al. (2014) do; all other words become <unk>.

Reads PREFIX.en and PREFIX.de of each split. Writes the same files, byte for byte and several times
faster, as `fairseq-preprocess --joined-dictionary`, or with --nwordssrc, --nwordstgt, but no log.
The output folder is created only when it is complete.
"""

from pathlib import Path

from checkout import SPLITS, Flags, run

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.outputs import new_data_folder
from vaswani_plugin.text.binary import binarize, build_dictionary, write_dictionary
from vaswani_plugin.text.dictionary import SPECIAL_SYMBOLS, read_dictionary
from vaswani_plugin.text.languages import two_languages


def main(flags: Flags) -> None:
    flags.add("--pair", required=True, help="source and target, such as en-de")
    for split in SPLITS:
        flags.add(f"--{split}", required=True, metavar="PREFIX", help="files, without .LANG")
    flags.add("--output", type=Path, required=True, help="the folder to create")
    flags.add("--dictionary", metavar="FILE", help="use this one as it is; count nothing")
    flags.number("--threshold", 0, "rarer subwords become <unk> (default: 0, none)", 0)
    flags.number("--source-rows", None, "most rows of the source dictionary, special ones too", 5)
    flags.number("--target-rows", None, "the same for the target; goes with --source-rows", 5)
    flags.number("--padding-factor", None, "rows are a multiple (default: 8)")
    flags.workers()
    args = flags.parse_args()
    pair = two_languages(args.pair)
    rows = args.source_rows, args.target_rows
    if (rows[0] is None) != (rows[1] is None):
        raise UserError("--source-rows and --target-rows go together: give both or neither")
    if args.dictionary and (args.threshold or rows[0] or args.padding_factor):
        raise UserError("--dictionary: leave out --threshold, --source-rows and --padding-factor")
    files = {split: [f"{getattr(args, split)}.{language}" for language in pair] for split in SPLITS}
    with new_data_folder(args.output) as (folder, _):
        counting = args.threshold, args.padding_factor or 8, args.workers
        if args.dictionary:
            dictionaries = [read_dictionary(args.dictionary)] * 2
        elif rows[0] is None:
            dictionaries = [build_dictionary(files["train"], *counting)] * 2
        else:
            sides = zip(files["train"], rows, strict=True)
            dictionaries = [build_dictionary([t], *counting, most_rows=n) for t, n in sides]
        report = []
        for language, entries in zip(pair, dictionaries, strict=True):
            write_dictionary(entries, folder / f"dict.{language}.txt")
            report.append(f"types.{language} {len(SPECIAL_SYMBOLS) + len(entries)}")
        for split, paths in files.items():
            prefixes = [folder / f"{split}.{args.pair}.{language}" for language in pair]
            sides = zip(paths, prefixes, dictionaries, strict=True)
            counts = [binarize(*side, args.workers) for side in sides]
            (source, *_), (target, *_) = counts
            if source != target or not source:
                both = f"{paths[0]} has {source} lines, {paths[1]} {target}"
                raise UserError(f"{both}: they must correspond line by line, and not be empty")
            shares = [f"{100 * unknown / tokens:.3g}%" for _, tokens, unknown in counts]
            report.append(f"{split} {source} ({' and '.join(shares)} <unk>)")
    print(f"{', '.join(report)}: {args.output}")


if __name__ == "__main__":
    run(main, __doc__)
