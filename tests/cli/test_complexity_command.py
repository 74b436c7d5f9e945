"""`vaswani complexity`: its frozen keys, the tables, the plot, errors."""

import json
from pathlib import Path

import pytest

from tests.support.commands import vaswani

SMALL = ["--measure", "--lengths", "32", "16", "--widths", "8", "16", "--r", "4", "--k", "3"]


def test_text_shows_formulas_with_numbers() -> None:
    shown = vaswani("complexity", "--n", 100, "--d", 200, "--k", 3, "--r", 10).out
    for part in ("n^2 d = 2,000,000", "n d^2 = 4,000,000", "k n d^2 = 12,000,000", "n = 100"):
        assert part in shown
    for part in ("r n d = 200,000", "log_k n = 4.19", "n/r = 10", "costs 0.5 times", "5 layers"):
        assert part in shown


def test_measured_keys_and_plot(tmp_path: Path) -> None:
    plot = tmp_path / "layers.png"
    done = vaswani("complexity", *SMALL, "--plot", plot, "--format", "json")
    measured = json.loads(done.out)["measured"]
    assert list(measured) == ["n", "d", "lengths", "widths", "layers"]
    assert (measured["lengths"], measured["widths"]) == ([16, 32], [8, 16])
    assert (measured["n"], measured["d"]) == (32, 16)
    assert len(measured["layers"]) == 7
    for layer in measured["layers"]:
        assert all(value > 0 for value in layer["seconds_over_n"] + layer["seconds_over_d"])
        assert len(layer["seconds_over_n"]) == len(layer["seconds_over_d"]) == 2
    assert plot.read_bytes().startswith(b"\x89PNG") and list(tmp_path.iterdir()) == [plot]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--r", "99", "--n", "50"], "--r 99 is no restriction of --n 50"),
        (["--k", "1"], "--k is 1; it must be at least 2"),
        (["--plot", "x.png"], "--plot draws measured times: give --measure too"),
        (["--lengths", "64", "128"], "--lengths and --widths are measured: give --measure too"),
        (["--measure", "--lengths", "64"], "--lengths: give at least two different sizes"),
        (["--measure", "--widths", "8", "8"], "--widths: give at least two different sizes"),
        (["--measure", "--lengths", "8", "99"], "--r 16 is no restriction of --n 8"),
        (["--measure", "--plot", "x.docx"], "x.docx: a plot ends in .png or .svg"),
    ],
)
def test_bad_input_is_one_line(flags: list[str], message: str) -> None:
    assert message in vaswani("complexity", *flags).error
