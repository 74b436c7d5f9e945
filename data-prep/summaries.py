"""Takes articles and summaries out of a published corpus: one line each.

    summaries.py --format scitldr --input train.jsonl.gz --output raw/train
    summaries.py --format stories --input cnn/stories --urls all_train.txt --output raw/train
    summaries.py --format csv --input train.csv --output raw/train

Writes PREFIX.article and PREFIX.summary (the first one, where there are several) for code_text.py,
and PREFIX.jsonl with the article's sentences and all summaries for `vaswani rouge`. An example
without an article or a summary is left out. The formats: vaswani_plugin/text/summaries.py.
"""

import argparse

import checkout  # noqa: F401

from vaswani_plugin.text.corpus_io import InputError, run
from vaswani_plugin.text.summaries import READERS, read_stories, write_examples


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--format", choices=READERS, required=True)
    parser.add_argument("--input", required=True, help="a file, plain or .gz; stories: a folder")
    parser.add_argument("--urls", metavar="FILE", help="of stories, those of a split")
    parser.add_argument("--output", required=True, metavar="PREFIX")
    parser.add_argument("--most", type=int, default=0, metavar="N", help="examples (0: all)")
    args = parser.parse_args()
    if args.urls and args.format != "stories":
        raise InputError(f"--urls goes with --format stories, not with {args.format}")
    if args.urls:
        examples = read_stories(args.input, args.urls)
    else:
        examples = READERS[args.format](args.input)
    written, dropped = write_examples(examples, args.output, args.most)
    left_out = f", {dropped:,} without one or the other left out" if dropped else ""
    print(f"{args.output}: {written:,} articles with summaries{left_out}")


if __name__ == "__main__":
    run(main)
