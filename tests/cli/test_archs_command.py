"""`vaswani archs`: the table of architectures against the counts that the paper prints."""

import json

import pytest

from vaswani_plugin.cli.__main__ import main

PRINTED = {  # Table 3, last column, in millions
    "vaswani_base": 65,
    "vaswani_b_dk16": 58,
    "vaswani_b_dk32": 60,
    "vaswani_c_n2": 36,
    "vaswani_c_n4": 50,
    "vaswani_c_n8": 80,
    "vaswani_c_d256": 28,
    "vaswani_c_d1024": 168,
    "vaswani_c_ff1024": 53,
    "vaswani_c_ff4096": 90,
    "vaswani_big": 213,
}


@pytest.fixture(scope="module")
def rows():
    from contextlib import redirect_stdout
    from io import StringIO

    output = StringIO()
    with redirect_stdout(output):
        assert main(["archs", "--format", "json"]) == 0
    return {row["arch"]: row for row in json.loads(output.getvalue())}


def test_the_printed_counts_are_the_papers(rows):
    printed = {n: r["printed_parameters"] for n, r in rows.items() if r["printed_parameters"]}
    assert printed == {name: count * 1_000_000 for name, count in PRINTED.items()}


def test_every_count_agrees_but_that_of_big(rows):
    for name, millions in PRINTED.items():
        agrees = abs(rows[name]["parameters"] / 1e6 - millions) <= 0.5
        assert rows[name]["agrees"] is agrees
        assert agrees is (name != "vaswani_big")


def test_a_row_states_its_changes_only(rows):
    assert rows["vaswani_base"]["changes"] == {}
    assert rows["vaswani_b_dk16"]["changes"] == {"d_k": 16, "d_v": 64}
    assert rows["vaswani_d_drop02"]["changes"] == {"dropout": 0.2}


def test_another_vocabulary_changes_the_shared_matrix_alone(rows, capsys):
    assert main(["archs", "--vocab", "1000", "--format", "json"]) == 0
    smaller = {row["arch"]: row for row in json.loads(capsys.readouterr().out)}
    for name, width in (("vaswani_base", 512), ("vaswani_big", 1024), ("vaswani_tiny", 128)):
        difference = rows[name]["parameters"] - smaller[name]["parameters"]
        assert difference == (40_960 - 1000) * width


def test_the_text_names_the_unexplained_difference(capsys):
    assert main(["archs"]) == 0
    text = capsys.readouterr().out
    assert "vaswani_big: +5.3M against the printed count. Unexplained" in text
    assert "65,110,016" in text


def test_too_small_a_vocabulary_is_refused(capsys):
    assert main(["archs", "--vocab", "4"]) == 1
    assert "--vocab 4" in capsys.readouterr().err
