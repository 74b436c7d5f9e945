"""Extracts articles and summaries from a published corpus, one per line.

    summaries.py --format scitldr --input train.jsonl.gz --output raw/train
    summaries.py --format csv --input train.csv --output raw/train

Writes PREFIX.article and PREFIX.summary for code_text.py (the first summary of each article), and
PREFIX.jsonl for `vaswani rouge`, with the article's sentences and all summaries. Examples without
an article or a summary are skipped. vaswani_plugin/text/summaries.py explains the formats.
"""

from checkout import Flags, run

from vaswani_plugin.files.outputs import check_outputs
from vaswani_plugin.text.summaries import READERS, output_paths, write_examples


def main(flags: Flags) -> None:
    flags.add("--format", choices=READERS, required=True, help="of --input")
    flags.add("--input", required=True, help="file, plain or .gz")
    flags.add("--output", required=True, metavar="PREFIX", help="of the files to write")
    args = flags.parse_args()
    check_outputs("--output", output_paths(args.output), [args.input])
    written, dropped = write_examples(READERS[args.format](args.input), args.output)
    left_out = f", {dropped:,} without one or the other left out" if dropped else ""
    print(f"{args.output}: {written:,} articles with summaries{left_out}")


if __name__ == "__main__":
    run(main, __doc__)
