"""text_part.py: parts that adjoin share no line and lose none."""

import gzip

import pytest

from tests.support.scripts import assert_one_line_error, run_script

SCRIPT = "recipes/lib/text_part.py"
LINES = [f" line {number}\u2028 " for number in range(23)]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in LINES).encode()))
    return path


def part(*args: object) -> list[str]:
    done = run_script(SCRIPT, *args)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_parts_make_up_the_whole(text):
    borders = ["0", "0.9", "0.95", "1"]
    parts = [part(text, "--from", a, "--to", b) for a, b in zip(borders, borders[1:], strict=False)]
    assert sum(parts, []) == LINES
    assert [len(lines) for lines in parts] == [21, 1, 1]
    assert part(text) == LINES


def test_most_and_words(text):
    assert part(text, "--most", 3) == LINES[:3]
    assert part(text, "--from", 0.5, "--most", 2, "--words") == [
        line.strip(" ") for line in LINES[12:14]
    ]


def test_characters(text):
    assert part(text, "--most", 1, "--characters", 5) == [" line"]
    assert part(text, "--most", 1, "--characters", 5, "--words") == ["line "]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--from", 0.5, "--to", 0.5], "--from 0.5 --to 0.5: must be fractions, in this order"),
        (["--to", 1.5], "must be fractions"),
        (["--to", 0.01], "23 lines are too few"),
    ],
)
def test_no_part(text, flags, message):
    assert_one_line_error(run_script(SCRIPT, text, *flags), message)
