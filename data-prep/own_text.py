"""Cleans text of your own, splits it into train, valid and test, and reports what was dropped.

    own_text.py --pair de-hsb --train a.de a.hsb --output raw --report corpus.json
    own_text.py --pair de-hsb --train pairs.tsv.gz --test test.tsv --output raw --report corpus.json

A corpus is two files that correspond line by line, or one file with source <tab> target on each
line, in UTF-8, plain or .gz. More columns need --columns, or a first line that names the languages.
Without --valid or --test, that split is taken out of the training text, with all its sentences.

These pairs are dropped: an empty side; a side longer than --max-length; the same text on both
sides; a ratio of lengths beyond --max-ratio; another number of columns; repeated pairs; a sentence
of held-out text. If one of these rules, except for repeated pairs, drops more than half of a file,
the file is refused. Invisible characters without meaning are removed. For more see OpusFilter.
"""

import re
from pathlib import Path

from checkout import SPLITS, Flags, report, run

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.outputs import check_outputs, write_json
from vaswani_plugin.text.cleaning import prepare_pairs
from vaswani_plugin.text.languages import two_languages
from vaswani_plugin.text.raw_text import base_language


def check_names(paths: tuple[str, ...], pair: tuple[str, str]) -> None:
    """Refuses files whose names say that they are of other languages than the pair."""
    parts = [Path(path.removesuffix(".gz")).name.split(".")[1:] for path in paths]
    for path, names, code, other in zip(paths, parts, pair, pair[::-1], strict=False):
        if len(paths) == 1:
            code, other = "-".join(pair), "-".join(pair[::-1])
        bases = {base_language(name) for name in names if re.fullmatch("[a-z]{2}(-.*)?", name)}
        others = len(paths) == 2 and bases and base_language(code) not in bases
        if code not in names and (other in names or others):
            advice = "give the source first, or another --pair"
            raise UserError(f"--pair {'-'.join(pair)}: {path} is not {code} by its name: {advice}")


def main(flags: Flags) -> None:
    flags.add("--pair", required=True, help="source and target language, such as de-hsb")
    flags.add("--train", nargs="+", required=True, metavar="FILE", help="training text")
    flags.add("--valid", nargs="+", metavar="FILE", help="validation text")
    flags.add("--test", nargs="+", metavar="FILE", help="test text")
    flags.add("--columns", metavar="S,T", help="source and target, from 1 (default: 1,2 of 2)")
    flags.number("--max-length", 1000, "longest side in bytes (default: 1000)")
    flags.number("--max-ratio", 3.0, "most times longer than expected (default: 3)", 1.0)
    flags.add("--output", type=Path, required=True, help="folder of the splits to write")
    flags.add("--report", required=True, help="JSON file to write")
    args = flags.parse_args()
    files = {name: tuple(getattr(args, name)) for name in SPLITS if getattr(args, name)}
    inputs = [path for paths in files.values() for path in paths]
    pair = two_languages(args.pair)
    for paths in files.values():
        check_names(paths, pair)
    if args.columns and not re.fullmatch(r"[1-9]\d*,[1-9]\d*", args.columns):
        raise UserError(f"--columns {args.columns}: give two numbers, such as 2,3")
    columns = tuple(int(n) - 1 for n in args.columns.split(",")) if args.columns else None
    splits = [args.output / f"{name}.{language}" for name in SPLITS for language in pair]
    check_outputs("--output and --report", [*splits, args.report], inputs)
    summary = prepare_pairs(files, pair, args.output, args.max_length, args.max_ratio, columns)
    write_json(args.report, summary)
    for name, counts in summary["files"].items():
        report(f"{name}: {counts['kept']:,} of {counts['read']:,} pairs kept", args.report)
        for rule, entry in counts["dropped"].items():
            report(f"  dropped {entry['count']:,}: {rule} (first {entry['first']})", args.report)
    counts = ", ".join(f"{name} {count:,}" for name, count in summary["splits"].items())
    report(f"pairs: {counts}", args.report)


if __name__ == "__main__":
    run(main, __doc__)
