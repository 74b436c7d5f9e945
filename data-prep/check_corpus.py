"""Cleans a parallel corpus by the rules of Moses' clean-corpus-n.perl, and counts what it drops.

    check_corpus.py train.en train.de --clean clean.en clean.de --max-length 250 --max-ratio 1.5

Dropped are pairs with an empty side or a control character other than the tab; a side of more than
--max-length words, or with more than --max-ratio words for each word of the other; a word of more
than 1,000 characters; with --drop-duplicates, exact duplicates (by 8-byte hashes). Each pair counts
for the first rule that it breaks. Files of different lengths and invalid UTF-8 are errors.
"""

from checkout import at_least, parser, report, run

from vaswani_plugin.text.cleaning import clean
from vaswani_plugin.text.outputs import check_outputs


def main() -> None:
    """Command line."""
    flags = parser(__doc__)
    add = flags.add_argument
    add("source", help="source text, plain or .gz")
    add("target", help="target text, plain or .gz")
    both = ("OUT_SOURCE", "OUT_TARGET")
    add("--clean", nargs=2, metavar=both, required=True, help="the files to write")
    add("--max-length", type=int, default=250, help="most words (default: 250)")
    most = "most words of one side per word of the other (default: 1.5)"
    add("--max-ratio", type=float, default=1.5, help=most)
    add("--drop-duplicates", action="store_true", help="drop repeated pairs")
    args = flags.parse_args()
    at_least(args, max_length=1, max_ratio=1)
    files, outputs = (args.source, args.target), tuple(args.clean)
    check_outputs("--clean", outputs, files)
    found = clean(files, outputs, args.max_length, args.max_ratio, args.drop_duplicates)
    report(f"read: {found['read']:,}\nkept: {found['kept']:,}", *outputs)
    for rule, count in found["removed"].items():
        report(f"removed, {rule}: {count:,}", *outputs)


if __name__ == "__main__":
    run(main)
