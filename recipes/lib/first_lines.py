"""Prints the first N lines of each corpus, plain or .gz; all lines if N is 0.

first_lines.py 1000 train.en.gz > train.en
"""

import sys
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from vaswani_plugin.errors import UserError, run  # noqa: E402
from vaswani_plugin.text.lines import read_lines  # noqa: E402
from vaswani_plugin.text.outputs import write_atomically  # noqa: E402


def main() -> None:
    """Command line."""
    if len(sys.argv) < 3 or not sys.argv[1].isdigit():
        raise UserError("usage: first_lines.py N FILE...")
    with write_atomically("-") as write:
        for path in sys.argv[2:]:
            for line in islice(read_lines(path), int(sys.argv[1]) or None):
                write(line)


if __name__ == "__main__":
    run(main)
