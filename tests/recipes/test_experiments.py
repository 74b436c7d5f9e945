"""recipes/experiments.py: rows as data, trainings that are shared and resumed, the report."""

import argparse
import json
import re
import shutil
import signal
import sys
import threading

import pytest
from fairseq_flags import model_config, parsed

from tests.conftest import REPO
from tests.support.recipes import run_in_forks
from tests.support.scripts import assert_one_line_error, quick_environment, run_script

sys.path.insert(0, str(REPO / "recipes"))
import experiments  # noqa: E402

from vaswani_plugin.errors import UserError  # noqa: E402
from vaswani_plugin.figures.flops import forward_flops  # noqa: E402
from vaswani_plugin.files.lines import read_lines  # noqa: E402
from vaswani_plugin.model.architectures import ARCHITECTURES  # noqa: E402
from vaswani_plugin.model.families import row_of  # noqa: E402
from vaswani_plugin.text.binary import read_numbers  # noqa: E402
from vaswani_plugin.text.dictionary import Dictionary  # noqa: E402
from vaswani_plugin.text.training_log import read_training  # noqa: E402

FILES = sorted(experiments.FILES.glob("*.tsv"))
SCRIPT = "recipes/experiments.py"
SMALL = """\
# one training, two rows
name\ttrain\taverage\ttranslate\tpaper
all\t--arch vaswani_debug -s tgt -t src --max-tokens 200 --max-update 6 --save-interval-updates 2 \
--log-interval 1 --eval-bleu --eval-bleu-args '{"beam": 1}' --eval-tokenized-bleu\t1\t--beam 2
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
    assert {row.name for row in ARCHITECTURES if "Table 3" in row.source} <= used
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


def test_the_report(finished, toy_data_bin):
    printed, folder, _ = finished
    report = json.loads((folder / "work" / "report.json").read_text(encoding="utf-8"))
    first, averaged = (report["rows"][name] for name in ("first", "group_averaged"))
    assert averaged["PPL"] == first["PPL"], "they share a training"
    assert all(len(row["BLEU"]) == 2 and row["updates"] == [6, 6] for row in (first, averaged))
    assert (folder / "work" / "report.md").read_text(encoding="utf-8") == printed
    table, costs = printed.split("\n\n")
    rows = re.findall(r"^\| (\w+) .* \| ([\d.]*) \|$", table, re.M)
    assert rows == [("first", "25.8"), ("group_averaged", "")]
    assert {p.name for p in (folder / "work" / "trainings").iterdir()} == {"first-1", "first-2"}
    # Three forward passes of a pair of mean lengths, by the number of target tokens.
    sizes = [read_numbers(toy_data_bin / f"train.src-tgt.{side}")[1] for side in ("tgt", "src")]
    source, target = (round(lengths.mean()) for lengths in sizes)
    words = len(Dictionary.load(toy_data_bin / "dict.src.txt"))
    family, row = row_of("vaswani_debug")
    flops = 3 * forward_flops(family, row.changes, words, (1, source, target)) / target
    log = folder / "work" / "trainings" / "first-1" / "train.log"
    tokens = 6 * read_training(read_lines(log), "").tokens_per_update
    (*_, last), (*_, other) = first["costs"]
    assert last["FLOPs"] == pytest.approx(flops * tokens) and 0 <= last["BLEU"] <= 100
    assert first["costs"] == averaged["costs"] and 0 < last["minutes"] < 1
    mean = f"{(last['FLOPs'] + other['FLOPs']) / 2:.1e}".replace("e+", "e")
    assert costs.split("\n")[2].startswith(f"| first | {mean} | ")
    for name in ("report.png", "costs.png"):
        assert (folder / "work" / name).read_bytes().startswith(b"\x89PNG")


def test_what_a_bleu_costs_by_hand(tmp_path, monkeypatch):
    """In proportion between two validations; where a seed doesn't reach it, nothing is said."""

    def curve(*values: tuple[float, float, float]) -> list[dict[str, float]]:
        return [dict(zip(("FLOPs", "minutes", "BLEU"), each, strict=True)) for each in values]

    curves = {
        "fast": [curve((1e12, 1, 2), (2e12, 2, 12)), curve((1e12, 1, 10), (2e12, 4, 11))],
        "slow": [curve((3e12, 3, 5)), curve((5e12, 5, 4))],
    }
    assert experiments.report_costs(curves).split("\n")[:4] == [
        "| row | FLOPs | minutes | FLOPs, minutes to 5 BLEU | FLOPs, minutes to 10 BLEU |",
        "| --- | --- | --- | --- | --- |",
        "| fast | 2.0e12 | 3.0 | 9.0e11, 0.9 | 1.4e12, 1.4 |",
        "| slow | 4.0e12 | 4.0 |  |  |",
    ]
    drawn = []
    monkeypatch.setattr("vaswani_plugin.figures.curves.save_figure", lambda f, _: drawn.append(f))
    experiments.draw_costs(curves, tmp_path / "costs.png")
    over_flops, over_minutes = drawn[0].axes
    assert list(over_flops.lines[0].get_xdata()) == [1e12, 2e12]
    assert list(over_minutes.lines[3].get_xdata()) == [5]
    assert [list(line.get_ydata()) for line in over_minutes.lines[:2]] == [[2, 12], [10, 11]]


def test_the_table_by_hand():
    """Means with their standard errors; that of a change is of the differences seed by seed."""
    same = {"parameters": [1000] * 2, "updates": [6] * 2, "minutes": [1.0, 2.0]}
    found = {
        "first": {"PPL": [4.0, 6.0], "BLEU": [20.0, 22.0], **same},
        "other": {"PPL": [4.0, 4.0], "BLEU": [21.0, 25.0], **same},
    }
    figures = {"first": "25.8", "other": ""}
    rows = [experiments.Row(n, (), 1, (), {"paper": p}) for n, p in figures.items()]
    assert experiments.report(rows, found).split("\n")[2:4] == [
        "| first | 5.00 ± 1.00 | 21.00 ± 1.00 |  | 1,000 | 6 | 1.5 | 25.8 |",
        "| other | 4.00 ± 0.00 | 23.00 ± 2.00 | 2.00 ± 1.00 | 1,000 | 6 | 1.5 |  |",
    ]


def test_what_is_finished_is_not_done_again(finished):
    _, folder, args = finished
    files = [p for p in (folder / "work" / "trainings").rglob("*") if p.is_file()]
    before = {p: p.stat().st_mtime_ns for p in files}
    again = run_script(SCRIPT, folder / "rows.tsv", "group", *args)
    assert again.returncode == 0 and "trains" not in again.stderr
    assert re.findall(r"^\| (\w+) ", again.stdout, re.M) == ["row", "group_averaged"] * 2
    assert {p: p.stat().st_mtime_ns for p in before} == before
    for text in (folder / "work" / "trainings").rglob("*.txt"):
        text.write_text(re.sub(r"^(T-\d+\t)", r"\1<<unk>> ", text.read_text(), flags=re.M))
    assert "hold <<unk>>" in run_script(SCRIPT, folder / "rows.tsv", "group", *args).stderr


def test_mistakes_are_one_line(finished, tmp_path):
    _, folder, args = finished
    rows = folder / "rows.tsv"
    assert_one_line_error(run_script(SCRIPT, "tabel3", *args), "tabel3", "table3")
    assert_one_line_error(run_script(SCRIPT, rows, "b_dk16", *args), "b_dk16: no row", "first")
    (tmp_path / "x.tsv").write_text(f"{SMALL}first\n")
    assert_one_line_error(run_script(SCRIPT, tmp_path / "x.tsv", *args), "this name twice")
    for flags in (("--seeds", "1,x"), "--seeds 1,x: must be"), (("--work", "a:b"), "takes a colon"):
        assert_one_line_error(run_script(SCRIPT, rows, *args, *flags[0]), flags[1])
    runner = experiments.Runner(argparse.Namespace(gpus=4, parallel=2))
    assert (runner.workers[1], runner.device_flags) == ("2", [])  # a translation has one device
    data = shutil.copytree(args[1], tmp_path / "data")
    (data / "train.src-tgt.tgt.idx").write_bytes(b"other")
    for kind, changed in ("flags", ("--", "--dropout", "0.2")), ("data", ("--data", data)):
        assert_one_line_error(run_script(SCRIPT, rows, *args, *changed), f"is of other {kind}")
    assert_one_line_error(run_script(SCRIPT, rows, "--data", tmp_path), "no binarized data in it")
    failed = run_script(SCRIPT, rows, "first", "--data", data, "--work", tmp_path / "w")
    assert failed.returncode == 1 and "fairseq-train failed: see the end of" in failed.stderr


@pytest.mark.parametrize(
    ("limit", "threads", "code", "end"), [("", 3, 75, "^75$"), ("5", 5, 1, "sh failed: see the ")]
)
def test_a_signal_is_passed_on_and_nothing_more_is_begun(
    limit, threads, code, end, tmp_path, monkeypatch, capsys
):
    """What can't save has failed; the threads are the cores that may be used, or the user's."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {2, 3, 5}, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", limit)
    runner = experiments.Runner(argparse.Namespace(gpus=0, parallel=1))
    threading.Timer(1, runner.pass_on, (signal.SIGTERM, None)).start()
    waits = f"trap 'exit {code}' TERM; echo $OMP_NUM_THREADS; while :; do sleep .1; done"
    for expected in (end, "^75$"):
        with pytest.raises((SystemExit, UserError), match=expected):
            runner.execute(["sh", "-c", waits], tmp_path / "log")
    assert (tmp_path / "log").read_text() == f"{threads}\n"
    assert capsys.readouterr().err.count("the same command goes on") == 1
