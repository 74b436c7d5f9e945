"""Extracts the translations from fairseq-generate's output, in the order of the corpus.

    hypotheses.py --generate-output generate.txt --like test.en --output test.hyp.de

fairseq-generate sorts sentences by length and may skip some. Here each line of --like gets its
translation on the same line; a missing translation is an error.
"""

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from vaswani_plugin.text.corpus_io import InputError, read_lines, run, write_atomically  # noqa: E402


def read_hypotheses(path: str) -> dict[int, str]:
    """Returns the best translation (D- lines) by sentence number.

    Raises:
        InputError: a D- line is not `D-NUMBER<tab>SCORE<tab>TEXT`, or there is no D- line.
    """
    found: dict[int, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.startswith("D-"):
            continue
        parts = line.split("\t", 2)
        if len(parts) != 3 or not re.fullmatch(r"D-[0-9]{1,18}", parts[0]):
            raise InputError(f"{path}:{number}: no line of fairseq-generate: {line[:60]!r}")
        # With --nbest a sentence has several hypotheses; the first is the best.
        found.setdefault(int(parts[0][2:]), parts[2])
    if not found:
        raise InputError(f"{path}: no translation (D- line) in it: did fairseq-generate finish?")
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--generate-output", required=True)
    parser.add_argument("--like", required=True, help="the corpus that was translated")
    parser.add_argument("--output", required=True, help="file of the translations")
    args = parser.parse_args()
    found = read_hypotheses(args.generate_output)
    expected = sum(1 for _ in read_lines(args.like))
    missing = sorted(set(range(expected)) - set(found))
    if missing or len(found) != expected:
        raise InputError(
            f"{args.generate_output}: {len(found)} translations, {args.like} has {expected} lines"
            + (f"; the first without one is line {missing[0] + 1}" if missing else "")
        )
    with write_atomically(args.output) as write:
        for number in range(expected):
            write(found[number])


if __name__ == "__main__":
    run(main)
