"""stock_translation.sh and stock_lm.sh: both sides alike, from end to end, and gone on with."""

from pathlib import Path

import pytest

from tests.support.scripts import ROOT, run_bash, run_script

SPLITS = ("train", "valid", "test")


@pytest.fixture(scope="module")
def text_bin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    rows = "".join(f"{number % 7} the {number % 5} bird\n" for number in range(300))
    for split in SPLITS:
        (folder / split).write_text(rows, encoding="utf-8")
    flags = [part for split in SPLITS for part in (f"--{split}", folder / split)]
    flags += ["--coding", "words", "--output", folder / "bin"]
    assert run_script("data-prep/code_text.py", *flags).returncode == 0
    return folder / "bin"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "data", "more", "measure", "goes_on"),
    [
        ("stock_lm.sh", "text_bin", (), "test perplexity", False),
        ("stock_translation.sh", "toy_data_bin", (1, 100), "validation perplexity", True),
    ],
)
def test_both_sides_are_compared(script, data, more, measure, goes_on, tmp_path, request):
    command = ROOT / "recipes" / "benchmarks" / script

    def compare(updates: int):
        paths = request.getfixturevalue(data), tmp_path / "work"
        return run_bash(command, *paths, updates, *more, timeout=900)

    done = compare(2)
    assert done.returncode == 0, done.stderr
    ours, stock, ratio = done.stdout.strip().split("\n")[-3:]
    assert ours.startswith(f"ours: {measure} ") and stock.startswith(f"stock: {measure} ")
    # Equal sizes, or the comparison means nothing.
    assert ours.endswith(" parameters") and ours.split(", ")[-1] == stock.split(", ")[-1]
    assert ratio.startswith("after 2 updates, seed 1: perplexity ratio ")
    logs = [tmp_path / "work" / f"{side}.log" for side in ("ours", "stock")]
    before = [log.read_text() for log in logs]
    again = compare(2)
    assert again.stdout == done.stdout and [log.read_text() for log in logs] == before
    changed = compare(3)
    assert changed.stdout.strip().split("\n")[-1].startswith("after 3 updates, seed 1: ")
    for log in logs:
        assert log.read_text().count("num. shared model params") == 1 + goes_on
        assert log.read_text().count("@ 2 updates") == goes_on * 2  # saved, loaded
