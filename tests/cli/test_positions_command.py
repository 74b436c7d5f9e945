"""`vaswani positions`: the formula of section 3.5, entry by entry, and its picture."""

import json
import math
from pathlib import Path

import pytest

from tests.support.commands import vaswani


def test_the_table_is_the_papers_formula() -> None:
    done = vaswani("positions", "--length", 7, "--d-model", 6, "--format", "json")
    shown = json.loads(done.out)
    for pos in range(7):
        for i in range(3):
            angle = pos / 10000 ** (2 * i / 6)
            assert shown["table"][pos][2 * i] == pytest.approx(math.sin(angle), abs=1e-12)
            assert shown["table"][pos][2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-12)
    expected = sum(math.cos(2 / 10000 ** (2 * i / 6)) for i in range(3)) / 6
    assert shown["product_by_distance"]["2"] == pytest.approx(expected)


def test_text_and_picture(tmp_path: Path) -> None:
    plot = tmp_path / "positions.png"
    shown = vaswani("positions", "--length", 30, "--d-model", 16, "--plot", plot).out
    assert "k   0  0.5000" in shown and "k  20  " in shown and "k  50" not in shown
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--d-model", "7"], "--d-model is 7; it must be even and at least 2"),
        (["--length", "1"], "--length is 1; it must be at least 2"),
        (["--plot", "x.docx"], "x.docx: a plot ends in .png or .svg"),
    ],
)
def test_what_cannot_be(flags: list[str], message: str) -> None:
    assert message in vaswani("positions", *flags).error
