"""Cleans a parallel corpus by the rules of Moses' clean-corpus-n.perl, and counts what it drops.

    check_corpus.py train.en train.de --clean clean.en clean.de --max-length 250 --max-ratio 1.5

Dropped are pairs with an empty side or a control character other than the tab; a side of more than
--max-length words, or with more than --max-ratio words for each word of the other; a word of more
than 1,000 characters; with --drop-duplicates, exact duplicates (by 8-byte hashes). Each pair counts
for the first rule that it breaks. Files of different lengths and invalid UTF-8 are errors.
"""

from checkout import Flags, report, run

from vaswani_plugin.files.outputs import check_outputs
from vaswani_plugin.text.cleaning import clean


def main(flags: Flags) -> None:
    flags.add("source", help="source text, plain or .gz")
    flags.add("target", help="target text, plain or .gz")
    flags.add("--clean", nargs=2, metavar=("OUT_SOURCE", "OUT_TARGET"), required=True)
    flags.number("--max-length", 250, "most words (default: 250)")
    flags.number("--max-ratio", 1.5, "most words per word of the other side (default: 1.5)", 1.0)
    flags.add("--drop-duplicates", action="store_true", help="drop repeated pairs")
    args = flags.parse_args()
    files, outputs = (args.source, args.target), tuple(args.clean)
    check_outputs("--clean", outputs, files)
    counts = clean(files, outputs, args.max_length, args.max_ratio, args.drop_duplicates)
    report(f"read: {counts['read']:,}\nkept: {counts['kept']:,}", *outputs)
    for rule, count in counts["removed"].items():
        report(f"removed, {rule}: {count:,}", *outputs)


if __name__ == "__main__":
    run(main, __doc__)
