"""Cleans text of your own, splits it into train, valid and test, and reports what was dropped.

    own_text.py --pair de-hsb --train a.de a.hsb --output raw --report corpus.json
    own_text.py --pair de-hsb --train pairs.tsv.gz --test test.tsv --output raw --report corpus.json
    own_text.py --train book.txt --output raw --report corpus.json

A corpus is two files that correspond line by line, or one file with source <tab> target on each
line; without --pair it is one text, for a language model. Files are UTF-8, plain or .gz. Without
--valid or --test, that split is taken from the training text, which then has none of its sentences.

These pairs are dropped: an empty side; a side longer than --max-length; the same text on both
sides; a ratio of lengths beyond --max-ratio; repeated pairs; a sentence that is also in held-out
text. If one of these rules, except for repeated pairs, drops more than half of a file, the file is
refused. Of a language model's text, empty lines and repeated long lines are dropped. Invisible
characters without meaning are removed. For more rules see OpusFilter.
"""

from pathlib import Path
from typing import Any

from checkout import at_least, parser, run, two_languages

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.cleaning import (
    OwnCorpus,
    OwnRules,
    PairFiles,
    prepare_lines,
    prepare_pairs,
)
from vaswani_plugin.text.outputs import check_outputs, write_json


def show(report: dict[str, Any]) -> None:
    """Prints the report for people."""
    unit = "lines" if len(report["sides"]) == 1 else "pairs"
    for name, found in report["files"].items():
        print(f"{name}: {found['kept']:,} of {found['read']:,} {unit} kept")
        for rule, entry in found["dropped"].items():
            print(f"  dropped {entry['count']:,}: {rule} (first {entry['first']})")
    print(f"{unit}: " + ", ".join(f"{name} {n:,}" for name, n in report["splits"].items()))


def main() -> None:
    """Command line."""
    flags = parser(__doc__)
    add = flags.add_argument
    add("--pair", help="source and target language, such as de-hsb")
    add("--train", nargs="+", required=True, metavar="FILE", help="training text")
    add("--valid", nargs="+", metavar="FILE", help="validation text")
    add("--test", nargs="+", metavar="FILE", help="test text")
    add("--mix-old", nargs="+", metavar="FILE", help="older training text to add")
    add("--keep-out", nargs="+", metavar="FILE", help="text that training shares no sentence with")
    add("--mix-ratio", type=float, help="with --mix-old: old pairs for each new one (default: 1)")
    add(
        "--valid-size", type=int, help="pairs to hold out (default: 1/20, 50 to 2000, at most 1/10)"
    )
    add("--test-size", type=int, help="the same for the test set")
    add("--max-length", type=int, help="longest side in bytes (default: 1000)")
    add("--max-ratio", type=float, help="most times longer than expected (default: 3)")
    add("--copies", choices=("drop", "keep"), help="pairs with equal sides (default: drop)")
    add("--output", type=Path, required=True, help="folder of the splits to write")
    add("--report", required=True, help="JSON file to write")
    args = flags.parse_args()
    names = ("train", "valid", "test", "mix_old", "keep_out")
    files = {name: getattr(args, name) for name in names if getattr(args, name)}
    for path in (path for paths in files.values() for path in paths):
        if path == "-" or Path(path).is_fifo():
            raise UserError(f"{path}: a pipe can't be read twice: give a file")
    pair = two_languages(args.pair) if args.pair else ("txt",)
    splits = [args.output / f"{name}.{end}" for name in names[:3] for end in pair]
    inputs = [path for paths in files.values() for path in paths]
    check_outputs("--output and --report", [*splits, args.report], inputs)
    at_least(args, valid_size=1, test_size=1, mix_ratio=0)
    for name, other in (("valid_size", args.valid), ("test_size", args.test)):
        if getattr(args, name) and other:
            raise UserError(f"--{name.replace('_', '-')}: leave it out with files of your own")
    if args.mix_ratio is not None and not args.mix_old:
        raise UserError(f"--mix-ratio {args.mix_ratio:g}: goes with --mix-old FILE")
    limits = {n: v for n in ("max_length", "max_ratio") if (v := getattr(args, n)) is not None}
    if len(pair) == 1 and (args.mix_old or limits or args.copies):
        raise UserError("--mix-old, --max-length, --max-ratio, --copies: go with --pair")
    if len(pair) == 1 and len(inputs) > len(files):
        raise UserError("a language model's text is one file for each flag, not more")
    args.output.mkdir(parents=True, exist_ok=True)
    sizes = {"valid_size": args.valid_size, "test_size": args.test_size}
    if len(pair) == 1:
        texts = {
            name: files.get(name, [None])[0] for name in ("train", "valid", "test", "keep_out")
        }
        report = prepare_lines(**texts, **sizes, output=args.output)
    else:
        ratio = 1.0 if args.mix_ratio is None else args.mix_ratio
        sets = {name.removeprefix("mix_"): PairFiles(tuple(p), pair) for name, p in files.items()}
        rules = OwnRules(**limits, drop_copies=args.copies != "keep")
        report = prepare_pairs(OwnCorpus(**sets, **sizes, mix_ratio=ratio), rules, args.output)
    write_json(args.report, report)
    show(report)


if __name__ == "__main__":
    run(main)
