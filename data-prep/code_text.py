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
--summary-tokens.

The folder has what `--task language_modeling` reads (dict.txt, train.bin, train.idx and so on), the
codes, and preprocessing.json for bundle.py. It is created only when it is complete.
"""

import os
from pathlib import Path

from checkout import at_least, parser, run

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.coding import CODES, CODINGS
from vaswani_plugin.text.language_model_data import code_text
from vaswani_plugin.text.settings import TextSettings

SPLITS = ("train", "valid", "test")


def main() -> None:
    """Command line."""
    flags = parser(__doc__)
    add = flags.add_argument
    add("--coding", choices=CODINGS, required=True, help="kind of tokens")
    for split in SPLITS:
        add(f"--{split}", required=True, metavar="FILE", help="plain or .gz (summaries: PREFIX)")
    add("--output", type=Path, required=True, help="the folder to create")
    add("--summaries", action="store_true", help="the data are articles with summaries")
    add("--article-tokens", type=int, help="with --summaries: most tokens of the article")
    add("--summary-tokens", type=int, help="with --summaries: most tokens of the summary")
    add("--operations", type=int, default=8000, help="BPE merge operations (default: 8000)")
    add("--min-frequency", type=int, default=2, help="of a merged pair (default: 2)")
    add("--threshold", type=int, default=0, help="rarer words, characters: <unk> (default: 0)")
    add("--padding-factor", type=int, default=1, help="round rows up to a multiple (default: 1)")
    add("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: cores)")
    args = flags.parse_args()
    at_least(args, operations=1, min_frequency=1, padding_factor=1, workers=1)
    if args.threshold and args.coding == "bpe":
        raise UserError(f"--threshold {args.threshold}: has no effect with bpe: leave it out")
    lengths = args.article_tokens, args.summary_tokens
    if (None in lengths) == args.summaries or (not args.summaries and lengths != (None, None)):
        raise UserError("--summaries goes with --article-tokens N and --summary-tokens N")
    settings = TextSettings(args.coding, CODES if args.coding == "bpe" else None, *lengths)
    sides = (".article", ".summary") if args.summaries else ("",)
    splits = {split: [getattr(args, split) + side for side in sides] for split in SPLITS}
    names = ("operations", "min_frequency", "threshold", "padding_factor", "workers")
    numbers = {name: getattr(args, name) for name in names}
    report = code_text(splits, settings, args.output, **numbers)
    print("\n".join(report))


if __name__ == "__main__":
    run(main)
