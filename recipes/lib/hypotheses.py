"""Extracts the translations from fairseq-generate's output, in the order of the corpus.

    hypotheses.py --generate-output generate.txt --like test.en --output test.hyp.de

fairseq-generate sorts sentences by length and may skip some. Here each line of --like gets its
translation on the same line; a missing translation is an error.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from vaswani_plugin.errors import UserError, run  # noqa: E402
from vaswani_plugin.metrics.segments import read_generate_output  # noqa: E402
from vaswani_plugin.text.lines import read_lines  # noqa: E402
from vaswani_plugin.text.outputs import write_atomically  # noqa: E402


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--generate-output", type=Path, required=True)
    parser.add_argument("--like", required=True, help="the corpus that was translated")
    parser.add_argument("--output", required=True, help="file of the translations")
    args = parser.parse_args()
    found = read_generate_output(args.generate_output).detokenized
    expected = sum(1 for _ in read_lines(args.like))
    if len(found) != expected:
        raise UserError(
            f"{args.generate_output}: {len(found)} translations, {args.like} has {expected} lines"
        )
    with write_atomically(args.output) as write:
        for line in found:
            write(line)


if __name__ == "__main__":
    run(main)
