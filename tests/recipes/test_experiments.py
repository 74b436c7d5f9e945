"""recipes/experiments.py: rows as data, trainings that are shared and resumed, the report."""

import json
import re
import sys

import pytest
from fairseq_flags import model_config, parsed

from tests.conftest import REPO
from tests.support.recipes import run_in_forks
from tests.support.scripts import assert_one_line_error, quick_environment, run_script

sys.path.insert(0, str(REPO / "recipes"))
import experiments  # noqa: E402

from vaswani_plugin.model.architectures import ARCHITECTURES, row_of  # noqa: E402

FILES = sorted(experiments.FILES.glob("*.tsv"))
SCRIPT = "recipes/experiments.py"
SMALL = """\
# one training, two rows
name\ttrain\taverage\ttranslate\tpaper
all\t--arch vaswani_debug --max-tokens 200 --max-update 6 --save-interval-updates 2\t1\t--beam 2
first\t\t\t\t25.8
group_averaged\t\t2
"""


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_row_is_a_training(path):
    rows = experiments.read_rows(path)
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert parsed("--task", "vaswani_translation", *row.train).max_update
        assert row.average >= 1


def test_the_rows_of_table_3_are_the_papers():
    """Each architecture with a printed count is a row, at full size and at small scale."""
    full = {row.name: row for row in experiments.read_rows(experiments.FILES / "table3.tsv")}
    small = {row.name: row for row in experiments.read_rows(experiments.FILES / "table3_small.tsv")}
    assert full.keys() == small.keys() and len(full) == 20
    used = {row.train[row.train.index("--arch") + 1] for row in full.values()}
    table = {row.name for row in ARCHITECTURES if "Table 3" in row.source}
    assert table <= used
    for name, row in full.items():
        assert row.published == small[name].published
        arch = row.train[row.train.index("--arch") + 1]
        config = model_config("--task", "vaswani_translation", *row.train)
        scaled = model_config("--task", "vaswani_translation", *small[name].train)
        assert row_of(arch) and scaled.d_model * 8 == config.d_model, name
        assert scaled.d_ff * 8 == config.d_ff and scaled.heads == config.heads, name
        assert scaled.encoder_layers * 2 == scaled.decoder_layers * 2 == config.encoder_layers, name
        for head in ("d_k", "d_v"):
            width = getattr(config, head) or config.d_model // config.heads
            assert getattr(scaled, head) * 8 == width, name


@pytest.fixture(scope="module")
def finished(toy_data_bin, tmp_path_factory):
    """All rows with two seeds: what was printed, the work folder, the flags."""
    folder = tmp_path_factory.mktemp("my experiment")
    (folder / "rows.tsv").write_text(SMALL, encoding="utf-8")
    args = ("--data", toy_data_bin, "--work", folder / "work", "--seeds", "1,2", "--parallel", 2)
    words = ("bash", "-c", 'python "$@"', "bash", REPO / SCRIPT, folder / "rows.tsv", *args)
    done = run_in_forks(list(map(str, words)), quick_environment())
    assert done.returncode == 0, done.stderr
    return done.stdout, folder, args


def test_the_report(finished):
    printed, folder, _ = finished
    report = json.loads((folder / "work" / "report.json").read_text(encoding="utf-8"))
    first, averaged = (report["rows"][name] for name in ("first", "group_averaged"))
    assert averaged["PPL"] == first["PPL"], "they share a training"
    assert all(len(row["BLEU"]) == 2 and row["updates"] == [6, 6] for row in (first, averaged))
    assert (folder / "work" / "report.md").read_text(encoding="utf-8") == printed
    assert re.findall(r"^\| (\w+) .* \| ([\d.]*) \|$", printed, re.M) == [
        *(("first", "25.8"), ("group_averaged", "")),
    ]
    trained = sorted(path.name for path in (folder / "work" / "trainings").iterdir())
    assert trained == ["first-1", "first-2"]


def test_the_table_by_hand():
    """Means with their standard errors; that of a change is of the differences seed by seed."""
    same = {"parameters": [1000] * 2, "updates": [6] * 2, "minutes": [1.0, 2.0]}
    found = {
        "first": {"PPL": [4.0, 6.0], "BLEU": [20.0, 22.0], **same},
        "other": {"PPL": [4.0, 4.0], "BLEU": [21.0, 25.0], **same},
    }
    rows = [
        experiments.Row(n, (), 1, (), {"paper": p}) for n, p in (("first", "25.8"), ("other", ""))
    ]
    assert experiments.report(rows, found).split("\n")[2:4] == [
        "| first | 5.00 ± 1.00 | 21.00 ± 1.00 |  | 1,000 | 6 | 1.5 | 25.8 |",
        "| other | 4.00 ± 0.00 | 23.00 ± 2.00 | 2.00 ± 1.00 | 1,000 | 6 | 1.5 |  |",
    ]


def test_what_is_finished_is_not_done_again(finished):
    _, folder, args = finished
    before = {
        p: p.stat().st_mtime_ns for p in (folder / "work" / "trainings").rglob("*") if p.is_file()
    }
    again = run_script(SCRIPT, folder / "rows.tsv", "group", *args)
    assert again.returncode == 0 and "trains" not in again.stderr
    assert re.findall(r"^\| (\w+) ", again.stdout, re.M) == ["row", "group_averaged"]
    after = {p: p.stat().st_mtime_ns for p in before}
    assert after == before


def test_mistakes_are_one_line(finished, tmp_path):
    _, folder, args = finished
    rows = folder / "rows.tsv"
    assert_one_line_error(run_script(SCRIPT, "tabel3", *args), "tabel3", "table3")
    assert_one_line_error(run_script(SCRIPT, rows, "b_dk16", *args), "b_dk16: no row", "first")
    changed = run_script(SCRIPT, rows, *args, "--", "--dropout", "0.2")
    assert_one_line_error(changed, "is of other flags")
    work = ("--data", tmp_path, "--work", tmp_path / "w")
    failed = run_script(SCRIPT, rows, "first", *work)
    assert failed.returncode == 1 and "fairseq-train failed: see the end of" in failed.stderr
