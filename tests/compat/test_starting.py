"""fairseq is imported without what only the metrics of two of its tasks need."""

import subprocess
import sys

import pytest

from tests.conftest import REPO

USE = """
import sys
from fairseq.criterions.sentence_prediction import _matthews_corrcoef, f1_score, pearsonr
from fairseq.tasks.audio_classification import sklearn_metrics

print(sorted({"sklearn", "scipy"} & sys.modules.keys()))
print(f1_score([0, 1], [1, 1]), _matthews_corrcoef([0, 1], [0, 1]), pearsonr([1, 2], [4, 2])[0])
print(sklearn_metrics.roc_curve([0, 1], [0.2, 0.7])[1])
print(sorted({"sklearn", "scipy"} & sys.modules.keys()), f1_score.__module__)
"""


def printed_by(program: str) -> list[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=REPO
    ).stdout.splitlines()


def test_they_are_imported_when_they_are_called():
    without, values, curve, with_them = printed_by("import vaswani_plugin\n" + USE)
    assert without == "[]"
    assert [float(value) for value in values.split()] == pytest.approx([2 / 3, 1, -1])
    assert curve == "[0. 1. 1.]"
    assert with_them == "['scipy', 'sklearn'] vaswani_plugin.compat.starting"


def test_where_fairseq_is_there_before_nothing_changes():
    """When this fails, the mend can go."""
    first, *_, last = printed_by("import fairseq, vaswani_plugin\n" + USE)
    assert first == "['scipy', 'sklearn']"
    assert last == "['scipy', 'sklearn'] sklearn.metrics._classification"


def test_who_imported_one_of_them_keeps_it():
    program = "import scipy\nbefore = scipy\nimport vaswani_plugin\nimport scipy.stats\n"
    assert printed_by(program + "print(scipy is before, scipy.stats.norm.mean())") == ["True 0.0"]


LOOKS = """
import gc, sys

looks = []
gc.callbacks.append(lambda phase, info: looks.append("fairseq" in sys.modules))
gc.{before}()
import {imported}
print(sum(looks) > 100, gc.isenabled(), gc.get_freeze_count() > 10_000)
"""


@pytest.mark.parametrize("before", ["enable", "disable"])
def test_what_is_imported_is_not_taken_for_garbage(before):
    (printed,) = printed_by(LOOKS.format(before=before, imported="vaswani_plugin"))
    assert printed == f"False {before == 'enable'} True"
    (alone,) = printed_by(LOOKS.format(before="enable", imported="fairseq"))
    assert alone == "True True False"
