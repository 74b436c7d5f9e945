"""result.json from logs of fairseq-train in both formats, whole and resumed; translations in order.

The log lines have the wording of fairseq's own `train_inner`, `train` and trainer messages.
"""

import json
from pathlib import Path

import pytest

from tests.support.scripts import assert_one_line_error, run_script
from vaswani_plugin import processor

STAMP = "2026-01-01 00:00:00 | INFO | "
HEAD = STAMP + "fairseq_cli.train | num. shared model params: 1,234 (num. trained: 1,234)"


def simple(updates: int, wps: float, wpb: float, wall: int) -> str:
    """A line of an interval in the simple format."""
    return (
        f"{STAMP}train_inner | epoch 001:  {updates} / 500 loss=5.1, nll_loss=4, ppl=9, wps={wps},"
        f" ups=1, wpb={wpb}, bsz=9, num_updates={updates}, lr=1e-05, train_wall=3, wall={wall}"
    )


def as_json(updates: int, wps: float, wpb: float, wall: int) -> str:
    """The same in the json format."""
    fields = {
        "epoch": 1,
        "update": 0.1,
        "wps": str(wps),
        "wpb": str(wpb),
        "bsz": "9",
        "loss": "5.1",
    }
    fields |= {"num_updates": str(updates), "wall": str(wall)}
    return f"{STAMP}train_inner | {json.dumps(fields)}"


def write_result(folder: Path, log: list[str], *flags: object):
    """Runs result.py over a log and one data file; returns the process."""
    (folder / "log").write_text("".join(f"{line}\n" for line in log))
    (folder / "raw").mkdir(exist_ok=True)
    (folder / "raw" / "test.en").write_text("one\u2028line\ntwo\n", encoding="utf-8")
    return run_script(
        "recipes/lib/result.py", "--work", folder, "--recipe", "r", "--arch", "a",
        "--train-log", folder / "log", "--data", folder / "raw" / "test.en",
        "--output", folder / "result.json", *flags,
    )  # fmt: skip


@pytest.mark.parametrize("line", [simple, as_json])
def test_speed_updates_and_time(tmp_path, line):
    # 100 updates of 50 tokens at 100/s (50 s), then 50 of 200 at 400/s (25 s): 15,000 in 75 s
    log = [HEAD, line(100, 100, 50, 60), "noise", line(150, 400, 200, 90)]
    assert write_result(tmp_path, log).returncode == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["parameters"] == 1234
    assert (result["updates"], result["wall_seconds"]) == (150, 90)
    assert result["tokens_per_second"] == 200


def test_a_resumed_training_counts_no_update_twice(tmp_path):
    loaded = (
        STAMP + "fairseq.trainer | Loaded checkpoint /c/checkpoint_last.pt (epoch 2 @ 80 updates)"
    )
    log = [HEAD, simple(100, 100, 50, 60), HEAD, loaded, simple(100, 50, 50, 80)]
    assert write_result(tmp_path, log).returncode == 0
    # 100 updates in 50 s before the break, 20 in 20 s after it
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["tokens_per_second"] == 86
    assert result["wall_seconds"] == 60 + 80  # fairseq's clock starts anew with each start


def test_a_short_run_falls_back_on_its_epochs(tmp_path):
    epoch = (
        STAMP + "train | epoch 001 | loss 8 | ppl 99 | wps 200 | ups 0.15 | wpb 40 | bsz 1 | "
        "num_updates 20 | lr 0.08 | train_wall 25 | wall 9"
    )
    assert write_result(tmp_path, [HEAD, epoch]).returncode == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["updates"], result["tokens_per_second"], result["wall_seconds"]) == (20, 200, 9)


def test_keys_data_and_scores(tmp_path):
    import hashlib

    (tmp_path / "tok.json").write_text('{"tokenized": 41.5, "compound_split": 42.5}')
    (tmp_path / "sb.json").write_text('{"sacrebleu": 39.5, "signature": "nrefs:1"}')
    (tmp_path / "data-bin").mkdir()
    (tmp_path / "data-bin" / "a.bin").write_bytes(b"numbers")
    (tmp_path / "data-bin" / "preprocess.log").write_bytes(b"not read")
    done = write_result(
        tmp_path, [HEAD, simple(10, 5, 5, 5)], "--path", "data_bin=data-bin",
        "--tokenized", tmp_path / "tok.json", "--sacrebleu", tmp_path / "sb.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    # Later work reads these names; a change of them is a change of the interface.
    assert list(result) == [
        "recipe", "arch", "parameters", "updates", "tokens_per_second", "wall_seconds", "data",
        "paths", "binarized", "bleu", "versions", "processor",
    ]  # fmt: skip
    digest = hashlib.sha256((tmp_path / "raw" / "test.en").read_bytes()).hexdigest()
    size = len("one\u2028line\ntwo\n".encode())
    assert result["data"] == [{"file": "raw/test.en", "lines": 2, "bytes": size, "sha256": digest}]
    numbers = hashlib.sha256(b"numbers").hexdigest()
    assert result["binarized"] == [{"file": "data-bin/a.bin", "bytes": 7, "sha256": numbers}]
    assert result["paths"] == {"data_bin": "data-bin"}
    assert result["bleu"] == {
        "tokenized": 41.5, "compound_split": 42.5, "sacrebleu": 39.5, "signature": "nrefs:1",
    }  # fmt: skip
    assert set(result["versions"]) == {"torch", "fairseq", "plugin"}
    assert result["processor"] == processor.description()
    done = run_script("recipes/lib/summary.py", tmp_path / "result.json", "--title", "T")
    assert done.stdout.startswith(
        "T: 41.50 tokenized BLEU, 42.50 compound-split BLEU, 39.50 sacreBLEU (a, 1,234 parameters"
    )


@pytest.mark.parametrize(
    ("log", "flags", "part"),
    [
        (["nothing"], [], "no model size"),
        ([HEAD], [], "no training statistics"),
        ([HEAD, simple(1, 1, 1, 1)], ["--path", "bundle=gone"], "gone does not exist"),
        ([HEAD, simple(1, 1, 1, 1)], ["--path", "bundle"], "must be KEY=VALUE"),
    ],
)
def test_a_result_that_would_be_wrong_is_not_written(tmp_path, log, flags, part):
    assert_one_line_error(write_result(tmp_path, log, *flags), part)
    assert not (tmp_path / "result.json").exists()


def hypotheses(folder: Path, output: str, lines: int):
    """Runs hypotheses.py on what fairseq-generate printed for a corpus of so many lines."""
    (folder / "gen").write_text(output, encoding="utf-8")
    (folder / "src").write_text("x\n" * lines)
    return run_script(
        "recipes/lib/hypotheses.py", "--generate-output", folder / "gen",
        "--like", folder / "src", "--output", folder / "hyp",
    )  # fmt: skip


def test_translations_in_the_order_of_the_corpus(tmp_path):
    output = (
        "S-1\tx\nT-1\tref\nH-1\t-0.1\tan@@ other\nD-1\t-0.1\tanother\u2028\tb\nP-1\t-0.1\n"
        "D-1\t-0.5\tsecond best\nS-0\tx\nT-0\ty\nH-0\t-0.2\t\nD-0\t-0.2\t\n"
        "Generate test: done\n"
    )
    assert hypotheses(tmp_path, output, 2).returncode == 0
    assert (tmp_path / "hyp").read_bytes() == "\nanother\u2028\tb\n".encode()


@pytest.mark.parametrize(
    ("output", "lines", "part"),
    [
        ("H-0\t-1\ta\nD-0\t-1\ta\nH-2\t-1\tc\nD-2\t-1\tc\n", 3, "no H line of sentence 1"),
        ("H-0\t-1\ta\nD-0\t-1\ta\n", 2, "1 translations"),
        ("H-0\t-1\ta\nD-0\t-1\ta\nH-1\t-1\tc\nD-1\t-1\tc\n", 1, "2 translations"),
        ("S-0\tx\n", 1, "no H lines"),
        ("H-0\t-1\ta\nD-0\t-1\n", 1, "gen, line 2"),
    ],
)
def test_missing_translations_are_an_error(tmp_path, output, lines, part):
    assert_one_line_error(hypotheses(tmp_path, output, lines), part)
    assert not (tmp_path / "hyp").exists()
