"""Normalizes punctuation and tokenizes by the rules of Moses, or undoes the tokenization.

    normalize_tokenize.py --language de --lowercase --input train.de.gz --output train.tok.de
    normalize_tokenize.py --language de --detokenize --input hypotheses.tok --output hypotheses

The order is that of the published Multi30k preprocessing: lower-case, normalize punctuation,
tokenize. Each input line gives exactly one output line, the same as that of sacremoses' commands
for the text in Unicode's form NFC. Languages without abbreviations have the English ones.
"""

from functools import partial

from checkout import Flags, run

from vaswani_plugin.files.parallel import process_file
from vaswani_plugin.text.languages import check_language
from vaswani_plugin.text.moses import make_detokenizer, make_processor


def main(flags: Flags) -> None:
    flags.add("--language", required=True, help="its name, such as en, pt-BR (hsb: as en)")
    flags.streams()
    flags.add("--lowercase", action="store_true", help="convert to lower case")
    flags.add("--no-normalize", action="store_true", help="do not normalize punctuation")
    flags.add("--no-tokenize", action="store_true", help="do not tokenize")
    flags.add("--no-escape", action="store_true", help="do not write & as &amp; and so on")
    flags.add("--aggressive", action="store_true", help="split words at hyphens: a @-@ b")
    flags.add("--detokenize", action="store_true", help="only undo the tokenization")
    args = flags.parse_args()
    check_language(args.language)
    steps = args.lowercase, not args.no_normalize, not args.no_tokenize
    factory = partial(make_processor, args.language, *steps, args.aggressive, not args.no_escape)
    if args.detokenize:
        factory = partial(make_detokenizer, args.language)
    process_file(factory, args.input, args.output, args.workers)


if __name__ == "__main__":
    run(main, __doc__)
