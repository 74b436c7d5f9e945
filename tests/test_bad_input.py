"""A user's mistake: one line that names the file or flag and the remedy, and an exit code."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import STOCK_TINY

DEBUG = ("--arch", "vaswani_debug", "--max-tokens", "200", "--cpu", "--max-update", "1")


def last_line(run) -> str:
    """The last line of stderr of a process that failed, and did so without a traceback."""
    assert run.returncode != 0, "accepted"
    assert "Traceback" not in run.stderr + run.stdout
    return run.stderr.rstrip("\n").splitlines()[-1]


def one_line(run) -> str:
    """The whole stderr of a failed fairseq-train: ``error: `` and one line."""
    line = last_line(run)
    assert run.stderr == f"{line}\n" and line.startswith("error: ")
    return line


@pytest.fixture
def other_data(toy_data_bin, tmp_path) -> Path:
    """The same sentences with a shorter dictionary."""
    folder = tmp_path / "other"
    shutil.copytree(toy_data_bin, folder)
    for language in ("src", "tgt"):
        path = folder / f"dict.{language}.txt"
        words = path.read_text(encoding="utf-8").split("\n")
        path.write_text("\n".join(words[:16]) + "\n", encoding="utf-8")
    return folder


def generate(run_fairseq, data, checkpoint, *flags):
    return run_fairseq("generate", data, "--path", checkpoint, "--cpu", "--beam", 1, *flags)


def test_another_dictionary(run_fairseq, other_data, stock_checkpoint, tmp_path):
    generated = last_line(generate(run_fairseq, other_data, stock_checkpoint))
    (tmp_path / "save").mkdir()
    shutil.copy(stock_checkpoint, tmp_path / "save")
    resumed = one_line(
        run_fairseq("train", other_data, *STOCK_TINY, "--save-dir", tmp_path / "save")
    )
    for line in (generated, resumed):
        assert line.startswith("error: checkpoint ") and "checkpoint_last.pt" in line
        assert "does not fit this model (size mismatch for " in line
        assert "give the data folder" in line


def test_another_architecture(run_fairseq, toy_data_bin, stock_checkpoint, tmp_path):
    shutil.copy(stock_checkpoint, tmp_path)
    sizes = [*STOCK_TINY, "--encoder-ffn-embed-dim", 32]
    line = one_line(run_fairseq("train", toy_data_bin, *sizes, "--save-dir", tmp_path))
    assert f"{tmp_path}/checkpoint_last.pt" in line and "--arch" in line and "fc1" in line


def test_missing_files(run_fairseq, toy_data_bin, tmp_path):
    line = last_line(generate(run_fairseq, toy_data_bin, tmp_path / "none.pt"))
    assert line == f"error: Model file not found: {tmp_path}/none.pt"
    nowhere = ["train", tmp_path / "nowhere", *STOCK_TINY, "--save-dir", tmp_path / "save"]
    assert f"{tmp_path}/nowhere" in one_line(run_fairseq(*nowhere))


def test_unknown_architecture(run_fairseq, toy_data_bin, tmp_path):
    run = run_fairseq("train", toy_data_bin, "--arch", "vaswani_bse", "--save-dir", tmp_path / "s")
    line = last_line(run)
    assert "argument --arch/-a: invalid choice: 'vaswani_bse'" in line and "vaswani_base" in line


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--d-k", 0], ["--d-k is 0", "at least 1"]),
        (["--d-model", 100, "--heads", 8], ["--heads 8", "--d-model 100", "--d-k"]),
        # the validation set has longer sentences; training itself leaves long ones out, with a line
        (
            ["--max-source-positions", 4],
            ["Size of sample", "max_positions=(4, ", "--skip-invalid-size-inputs-valid-test"],
        ),
    ],
)
def test_impossible_models(run_fairseq, toy_data_bin, tmp_path, flags, words):
    run = run_fairseq("train", toy_data_bin, *DEBUG, *flags, "--save-dir", tmp_path / "save")
    line = one_line(run)
    assert all(word in line for word in words), line


def test_a_defect_is_shown_in_full(run_fairseq, toy_data_bin, tmp_path):
    """The opposite: what is no mistake of the user's, or is asked for, keeps its traceback."""
    arguments = ["train", toy_data_bin, *DEBUG, "--d-k", 0, "--save-dir", tmp_path / "save"]
    asked = run_fairseq(*arguments, VASWANI_TRACEBACK="1")
    assert asked.returncode != 0 and asked.stderr.startswith("Traceback")
    assert "UserError: --d-k is 0" in asked.stderr.splitlines()[-1]
