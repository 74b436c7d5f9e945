"""Checks a parallel corpus and, on request, writes a cleaned copy.

    check_corpus.py train.en train.de
    check_corpus.py train.en train.de --clean clean.en clean.de --max-length 250 --max-ratio 1.5

The check fails if a training on the corpus would be silently wrong: different numbers of lines, an
empty file, an empty side, invalid UTF-8, or a carriage return inside a line (fairseq ends the line
there). With --clean, pairs that break a rule are dropped, and the report counts them by rule (by
the first rule that a pair breaks). The rules are: no empty side; no control characters except for
the tab; limits of length and ratio, in words as Moses' clean-corpus-n.perl counts them; no word of
more than 1,000 characters; with --drop-duplicates, no exact duplicates, found by 8-byte hashes.
"""

import json

from checkout import parser, run

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.cleaning import WordRules, check, clean
from vaswani_plugin.text.outputs import check_outputs


def main() -> None:
    """Command line."""
    flags = parser(__doc__)
    flags.add_argument("source", help="source text, plain or .gz")
    flags.add_argument("target", help="target text, plain or .gz")
    outputs = ("OUT_SOURCE", "OUT_TARGET")
    flags.add_argument("--clean", nargs=2, metavar=outputs, help="write a cleaned copy")
    add = flags.add_argument_group("with --clean").add_argument
    add("--min-length", type=int, help="least words (default: 1)")
    add("--max-length", type=int, help="most words (default: 250)")
    add("--max-ratio", type=float, help="most words of one side per word of the other (1.5)")
    add("--drop-duplicates", action="store_true", default=None, help="drop repeated pairs")
    flags.add_argument("--format", choices=("text", "json"), default="text", help="of the report")
    args = flags.parse_args()
    names = ("min_length", "max_length", "max_ratio", "drop_duplicates")
    given = {name: value for name in names if (value := getattr(args, name)) is not None}
    if given and not args.clean:
        raise UserError(f"--{next(iter(given)).replace('_', '-')} goes with --clean")
    if args.clean:
        check_outputs("--clean", args.clean, [args.source, args.target])
        result = clean(args.source, args.target, tuple(args.clean), WordRules(**given))
    else:
        result = check(args.source, args.target)
    if args.format == "json":
        print(json.dumps(result))
        return
    removed = result.pop("removed", {})
    for key, value in result.items():
        print(f"{key.replace('_', ' ')}: {value:,}")
    for rule, count in removed.items():
        print(f"removed, {rule}: {count:,}")


if __name__ == "__main__":
    run(main)
