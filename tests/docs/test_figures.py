"""The figures of docs/results are its records', by evidence/figures.tsv; README's, results'."""

import csv
import json
import re
import statistics

import pytest

from tests.conftest import REPO

EVIDENCE = REPO / "docs" / "evidence"
FIGURE = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def places() -> list[tuple[str, str, str]]:
    """Figure, record and place of every line."""
    with (EVIDENCE / "figures.tsv").open(encoding="utf-8") as stream:
        return [tuple(row) for row in csv.reader(stream, delimiter="\t") if row[0][0] != "#"]


def value_at(record: object, place: str) -> float:
    """`a > b` is an entry of an entry; `x : y`, `x / y` and `x - y` compute with two places."""
    for sign in (" : ", " / ", " - "):
        left, found, right = place.partition(sign)
        if found:
            one, two = value_at(record, left), value_at(record, right)
            return one - two if sign == " - " else one / two
    for key in place.split(" > "):
        record = record[int(key)] if isinstance(record, list) else record[key]
    return statistics.mean(record) if isinstance(record, list) else record


def result_rows() -> list[list[str]]:
    """The cells of each row of the table of results."""
    text = (REPO / "docs" / "results.md").read_text(encoding="utf-8")
    return [line.strip("|\n ").split(" | ") for line in text.split("\n") if "](evidence/" in line]


def texts_about(record: str) -> list[str]:
    """The rows of results with this record, and the pages that link it."""
    rows = [f"{row[1]} {row[2]}" for row in result_rows() if f"{record}.json" in row[-1]]
    pages = [page.read_text(encoding="utf-8") for page in (REPO / "docs" / "results").glob("*.md")]
    return rows + [text for text in pages if f"{record}.json" in text]


@pytest.mark.parametrize(("figure", "name", "place"), places())
def test_a_figure_is_its_records(figure, name, place):
    value = value_at(json.loads((EVIDENCE / f"{name}.json").read_text(encoding="utf-8")), place)
    percent = 100 if " / " in place else 1
    digits = len(figure.partition(".")[2])
    assert f"{value * percent:,.{digits}f}" == figure
    assert any(figure in FIGURE.findall(text) for text in texts_about(name)), "it isn't printed"


def test_every_value_of_the_results_has_a_place():
    rows = result_rows()
    assert 8 <= len(rows) <= 20
    for what, value, _, _, records in rows:
        named = re.findall(r"evidence/([\w-]+)\.json", records)
        known = {figure for figure, name, _ in places() if name in named}
        assert FIGURE.findall(value) and set(FIGURE.findall(value)) <= known, what
        assert re.search(r", [0-9a-f]{7}$", records), f"{what}: at which commit?"


def test_readmes_figures_are_results():
    text = (REPO / "README.md").read_text(encoding="utf-8")
    section = text[text.index("## Results") :].split("\n## ")[1 - 1]
    rows = [line.strip("| ").split(" | ") for line in section.split("\n") if line.startswith("| ")]
    assert 3 <= len(rows[1:]) <= 5  # below the heading
    printed = [set(FIGURE.findall(" ".join(row[1:3]))) for row in result_rows()]
    for what, *cells in rows[1:]:
        figures = {figure for cell in cells for figure in FIGURE.findall(cell)}
        assert figures and any(figures <= row for row in printed), what
