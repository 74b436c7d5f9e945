"""Cleans text of your own, splits it into train, valid and test, and reports what was dropped.

    own_text.py --pair de-hsb --train a.de a.hsb --output raw --report corpus.json
    own_text.py --pair de-hsb --train pairs.tsv.gz --test test.tsv --output raw --report corpus.json

A corpus is two files that correspond line by line, or one file with source <tab> target on each
line, in UTF-8, plain or .gz. Without --valid or --test, that split is taken from the training text,
which then has none of its sentences.

These pairs are dropped: an empty side; a side longer than --max-length; the same text on both
sides; a ratio of lengths beyond --max-ratio; repeated pairs; a sentence that is also in held-out
text. If one of these rules, except for repeated pairs, drops more than half of a file, the file is
refused. Invisible characters without meaning are removed. For more rules see OpusFilter.
"""

from pathlib import Path

from checkout import at_least, parser, run

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.cleaning import prepare_pairs
from vaswani_plugin.text.languages import two_languages
from vaswani_plugin.text.outputs import check_outputs, write_json

SPLITS = ("train", "valid", "test")


def main() -> None:
    """Command line."""
    flags = parser(__doc__)
    add = flags.add_argument
    add("--pair", required=True, help="source and target language, such as de-hsb")
    add("--train", nargs="+", required=True, metavar="FILE", help="training text")
    add("--valid", nargs="+", metavar="FILE", help="validation text")
    add("--test", nargs="+", metavar="FILE", help="test text")
    add("--max-length", type=int, default=1000, help="longest side in bytes (default: 1000)")
    add("--max-ratio", type=float, default=3, help="most times longer than expected (default: 3)")
    add("--output", type=Path, required=True, help="folder of the splits to write")
    add("--report", required=True, help="JSON file to write")
    args = flags.parse_args()
    files = {name: tuple(getattr(args, name)) for name in SPLITS if getattr(args, name)}
    inputs = [path for paths in files.values() for path in paths]
    for path in inputs:
        if path == "-" or Path(path).is_fifo():
            raise UserError(f"{path}: a pipe can't be read twice: give a file")
    pair = two_languages(args.pair)
    splits = [args.output / f"{name}.{language}" for name in SPLITS for language in pair]
    check_outputs("--output and --report", [*splits, args.report], inputs)
    at_least(args, max_length=1, max_ratio=1)
    args.output.mkdir(parents=True, exist_ok=True)
    report = prepare_pairs(files, pair, args.output, args.max_length, args.max_ratio)
    write_json(args.report, report)
    for name, found in report["files"].items():
        print(f"{name}: {found['kept']:,} of {found['read']:,} pairs kept")
        for rule, entry in found["dropped"].items():
            print(f"  dropped {entry['count']:,}: {rule} (first {entry['first']})")
    print("pairs: " + ", ".join(f"{name} {n:,}" for name, n in report["splits"].items()))


if __name__ == "__main__":
    run(main)
