"""Extracts articles and summaries from a published corpus, one per line.

    summaries.py --format scitldr --input train.jsonl.gz --output raw/train
    summaries.py --format stories --input cnn/stories --urls all_train.txt --output raw/train
    summaries.py --format csv --input train.csv --output raw/train

Writes PREFIX.article and PREFIX.summary for code_text.py (the first summary of each article), and
PREFIX.jsonl for `vaswani rouge`, with the article's sentences and all summaries. Examples without
an article or a summary are skipped. vaswani_plugin/text/summaries.py explains the formats.
"""

import argparse

import checkout  # noqa: F401

from vaswani_plugin.errors import UserError, run
from vaswani_plugin.text.outputs import check_outputs
from vaswani_plugin.text.summaries import READERS, output_paths, read_stories, write_examples


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--format", choices=READERS, required=True, help="of --input")
    parser.add_argument("--input", required=True, help="file, plain or .gz (stories: folder)")
    parser.add_argument("--urls", metavar="FILE", help="stories: list of addresses of one split")
    parser.add_argument("--output", required=True, metavar="PREFIX", help="of the files to write")
    parser.add_argument(
        "--most", type=int, default=0, metavar="N", help="most examples (default: 0, all)"
    )
    args = parser.parse_args()
    if args.urls and args.format != "stories":
        raise UserError(f"--urls goes with --format stories, not with {args.format}")
    if args.most < 0:
        raise UserError(f"--most {args.most}: must be at least 0")
    check_outputs("--output", output_paths(args.output), [args.input, args.urls])
    if args.urls:
        examples = read_stories(args.input, args.urls)
    else:
        examples = READERS[args.format](args.input)
    written, dropped = write_examples(examples, args.output, args.most)
    left_out = f", {dropped:,} without one or the other left out" if dropped else ""
    print(f"{args.output}: {written:,} articles with summaries{left_out}")


if __name__ == "__main__":
    run(main)
