"""`vaswani evalb`: EVALB's layout and messages, its recorded output, JSON, errors in one line."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.support.commands import vaswani

DATA = Path(os.environ.get("VASWANI_DATA", "unset-VASWANI_DATA")) / "evalb"
GOLD = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks) (ADVP (RB now))) (. .)))"
CROSSING = "(TOP (S (DT the) (X (NN dog) (NNS barks)) (ADVP (RB now)) (. .)))"
KEYS = [
    *("sentence", "error_sentence", "skip_sentence", "valid_sentence", "bracketing_recall"),
    *("bracketing_precision", "bracketing_fmeasure", "complete_match", "average_crossing"),
    *("no_crossing", "2_or_less_crossing", "tagging_accuracy"),
]
TABLE = """\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
============================================================================
   1    5    0  100.00 100.00     4      4    4      0      4     4   100.00
   2    5    0   50.00  66.67     2      4    3      1      4     3    75.00
   3    5    2    0.00   0.00     0      0    0      0      0     0     0.00
   4    5    1    0.00   0.00     0      0    0      0      0     0     0.00
============================================================================
                 75.00  85.71      6     8     7      1      8     7    87.50
"""
SUMMARY = """\
=== Summary ===

-- All --
Number of sentence        =      4
Number of Error sentence  =      1
Number of Skip  sentence  =      1
Number of Valid sentence  =      2
Bracketing Recall         =  75.00
Bracketing Precision      =  85.71
Bracketing FMeasure       =  80.00
Complete match            =  50.00
Average crossing          =   0.50
No crossing               =  50.00
2 or less crossing        = 100.00
Tagging accuracy          =  87.50

-- len<=4 --
Number of sentence        =      0
Number of Error sentence  =      0
Number of Skip  sentence  =      0
Number of Valid sentence  =      0
Bracketing Recall         =   0.00
Bracketing Precision      =   0.00
Bracketing FMeasure       =    nan
Complete match            =   0.00
Average crossing          =   0.00
No crossing               =   0.00
2 or less crossing        =   0.00
Tagging accuracy          =   0.00
"""
PARAMETERS = "CUTOFF_LEN 4\nDELETE_LABEL TOP\nDELETE_LABEL .\n"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Arguments: four gold trees, and as tests a right, a crossing, an empty, a wrong one."""
    (tmp_path / "gold").write_text(f"{GOLD}\n" * 4)
    (tmp_path / "test").write_text(f"{GOLD}\n{CROSSING}\n\n{GOLD.replace('dog', 'cat')}\n")
    (tmp_path / "x.prm").write_text(PARAMETERS)
    options = ["--parameters", str(tmp_path / "x.prm")]
    return [str(tmp_path / "gold"), str(tmp_path / "test"), *options]


def test_table_summary_and_messages(files):
    shown = vaswani("evalb", *files)
    assert shown.out == TABLE + SUMMARY
    assert shown.err == "4 : Words unmatch (dog|cat)\n"
    assert vaswani("evalb", *files, "--summary").out == SUMMARY


def test_json(files):
    parts = json.loads(vaswani("evalb", *files[:2], "--format", "json").out)
    assert list(parts) == ["all", "len_40"] and parts["all"] == parts["len_40"]
    assert list(parts["all"]) == KEYS
    assert parts["all"]["bracketing_precision"] == pytest.approx(600 / 7)
    parts = json.loads(vaswani("evalb", *files, "--format", "json").out)
    assert parts["len_4"]["bracketing_fmeasure"] is None and parts["len_4"]["sentence"] == 0


def recorded(gold: str, test: str, parameters: str) -> str:
    for name in (gold, test, parameters):
        if not (DATA / name).is_file():
            pytest.skip(f"NOT TESTED: no {DATA / name} (set VASWANI_DATA to the corpora)")
    options = ["--parameters", str(DATA / parameters)]
    return vaswani("evalb", DATA / gold, DATA / test, *options).out


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["COLLINS", "new", "nk"])
def test_perturbed_trees_to_the_byte(name):
    folder = "craft-valid-perturbed"
    shown = recorded(f"{folder}/gold.txt", f"{folder}/test.txt", f"{name}.prm")
    assert shown == (DATA / folder / f"result.{name}.rsl").read_text()


def numbers(text: str, fields: int) -> list[list[str]]:
    """Rows of the table up to a column, and the lines of the summary but F."""
    rows = [line.split()[:fields] for line in text.split("\n") if re.match(r" *\d+ +\d", line)]
    summary = [line.split() for line in text.split("\n") if " = " in line]
    return [*rows, *(line for line in summary if "FMeasure" not in line)]


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("gold", "test", "parameters", "result"),
    [
        ("sample/sample.gld", "sample/sample.tst", "sample/sample.prm", "sample/sample.rsl"),
        ("bug/bug.gld", "bug/bug.tst", "new.prm", "bug/bug.rsl-new"),
    ],
)
def test_outputs_of_older_versions_but_for_layout(gold, test, parameters, result):
    """Before the column Words: older versions print it for erroneous sentences too."""
    shown = recorded(gold, test, parameters)
    expected = (DATA / result).read_text()
    assert numbers(shown, 9) == numbers(expected, 9)
    assert len(numbers(shown, 9)) > 25
