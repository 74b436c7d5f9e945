"""Normalizes punctuation and tokenizes by the rules of Moses, or undoes the tokenization.

    normalize_tokenize.py --language de --lowercase --input train.de.gz --output train.tok.de
    normalize_tokenize.py --language de --detokenize --input hypotheses.tok --output hypotheses

The order is that of the published Multi30k preprocessing: lower-case, normalize punctuation,
tokenize. Each input line gives exactly one output line, the same as that of sacremoses' commands
for the text in Unicode's form NFC. Languages without abbreviations have the English ones.
"""

import os
from functools import partial

from checkout import at_least, parser, run

from vaswani_plugin.text.languages import check_language
from vaswani_plugin.text.moses import make_detokenizer, make_processor
from vaswani_plugin.text.parallel import process_file


def main() -> None:
    """Command line."""
    flags = parser(__doc__)
    add = flags.add_argument
    add("--language", required=True, help="its name, such as en, pt-BR (hsb: as en)")
    add("--input", default="-", help="text, plain or .gz (default: standard input)")
    add("--output", default="-", help="file, plain or .gz (default: standard output)")
    add("--lowercase", action="store_true", help="convert to lower case")
    add("--no-normalize", action="store_true", help="do not normalize punctuation")
    add("--no-tokenize", action="store_true", help="do not tokenize")
    add("--no-escape", action="store_true", help="do not write & as &amp; and so on")
    add("--aggressive", action="store_true", help="split words at hyphens: a @-@ b")
    add("--detokenize", action="store_true", help="only undo the tokenization")
    add("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: cores)")
    args = flags.parse_args()
    at_least(args, workers=1)
    check_language(args.language)
    steps = args.lowercase, not args.no_normalize, not args.no_tokenize
    factory = partial(make_processor, args.language, *steps, args.aggressive, not args.no_escape)
    if args.detokenize:
        factory = partial(make_detokenizer, args.language)
    process_file(factory, args.input, args.output, args.workers)


if __name__ == "__main__":
    run(main)
