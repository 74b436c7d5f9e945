"""Turns text into a language model's training data: tokens in fairseq's binary form.

    code_text.py --coding bpe --operations 8000 --train train.txt --valid valid.txt \\
        --test test.txt --output data-bin
    code_text.py --coding bpe --summaries --article-tokens 400 --summary-tokens 60 \\
        --train raw/train --valid raw/valid --test raw/test --output data-bin

The tokens are words (separated by spaces; words that the training text lacks become <unk>), bpe
subwords (learned from the raw training text; decoding restores every line exactly) or characters.
Each line is a sequence that ends with </s>.

With --summaries a split is a prefix of two files, PREFIX.article and PREFIX.summary, and a sequence
is `article <sep> summary`. The article is cut to --article-tokens tokens, the summary to
--summary-tokens. With --like the tokens and their numbers are those of a bundle, to continue
training its model.

The folder has what `--task language_modeling` reads (dict.txt, train.bin, train.idx and so on), the
codes, and preprocessing.json for bundle.py. It is created only when it is complete.
"""

import os
from dataclasses import replace
from pathlib import Path

from checkout import at_least, parser, run

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.coding import CODES, CODINGS
from vaswani_plugin.text.language_model_data import code_text
from vaswani_plugin.text.settings import TextSettings, read_settings

SPLITS = ("train", "valid", "test")
NUMBERS = {"operations": 8000, "min_frequency": 2, "threshold": 0, "padding_factor": 1}
"""Numbers for tokens that are made here, with their defaults."""


def main() -> None:
    """Command line."""
    flags = parser(__doc__)
    add = flags.add_argument
    add("--coding", choices=CODINGS, help="kind of tokens; needed without --like")
    add("--like", type=Path, metavar="BUNDLE", help="use its tokens")
    for split in SPLITS:
        add(f"--{split}", required=True, metavar="FILE", help="plain or .gz (summaries: PREFIX)")
    add("--output", type=Path, required=True, help="the folder to create")
    add("--summaries", action="store_true", help="the data are articles with summaries")
    add("--article-tokens", type=int, help="with --summaries: most tokens of the article")
    add("--summary-tokens", type=int, help="with --summaries: most tokens of the summary")
    add("--operations", type=int, help="BPE merge operations (default: 8000)")
    add("--min-frequency", type=int, help="least frequency of a merged pair (default: 2)")
    add("--threshold", type=int, help="rarer words or characters become <unk> (default: 0)")
    add("--padding-factor", type=int, help="round rows up to a multiple (default: 1)")
    add("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: cores)")
    args = flags.parse_args()
    if (args.coding is None) == (args.like is None):
        raise UserError(f"give either --coding ({', '.join(CODINGS)}) or --like BUNDLE")
    at_least(args, operations=1, min_frequency=1, padding_factor=1, workers=1)
    useless = {"bpe": ["threshold"], None: list(NUMBERS)}
    for name in useless.get(args.coding, ["operations", "min_frequency"]):
        if getattr(args, name):
            flag = f"--{name.replace('_', '-')} {getattr(args, name)}"
            raise UserError(f"{flag}: has no effect with {args.coding or '--like'}: leave it out")
    lengths = args.article_tokens, args.summary_tokens
    if (None in lengths) == args.summaries or (not args.summaries and lengths != (None, None)):
        raise UserError("--summaries goes with --article-tokens N and --summary-tokens N")
    settings = TextSettings(
        args.coding or "words", CODES if args.coding == "bpe" else None, *lengths
    )
    if args.like is not None:
        settings = replace(read_settings(args.like), beam=None)
        if not isinstance(settings, TextSettings) or settings.codes not in (None, CODES):
            raise UserError(f"--like {args.like}: no bundle of a language model as bundle.py makes")
        if lengths != (settings.article_tokens, settings.summary_tokens):
            raise UserError(
                f"--like {args.like}: its --article-tokens and --summary-tokens are "
                f"{settings.article_tokens} and {settings.summary_tokens}: give the same"
            )
    sides = (".article", ".summary") if args.summaries else ("",)
    splits = {split: [getattr(args, split) + side for side in sides] for split in SPLITS}
    numbers = {name: getattr(args, name) or default for name, default in NUMBERS.items()}
    report = code_text(
        splits, settings, args.output, **numbers, workers=args.workers, like=args.like
    )
    print("\n".join(report))


if __name__ == "__main__":
    run(main)
