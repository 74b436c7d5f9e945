"""`vaswani curves`: a real log, resumed runs, broken files."""

import json
from pathlib import Path

import pytest

from tests.conftest import STOCK_TINY
from tests.support.commands import vaswani

INNER = (
    '2026 | INFO | train_inner | {{"epoch": 1, "loss": "{loss}", "ppl": "8", "wps": "500", '
    '"wpb": "{wpb}", "num_updates": "{n}", "lr": "0.003", "gnorm": "1.5", "wall": "{wall}"}}\n'
)
VALID = (
    '2026 | INFO | valid | {{"epoch": 1, "valid_loss": "{loss}", "valid_ppl": "9.5", '
    '"valid_wps": "77", "valid_num_updates": "{n}"}}\n'
)
MODEL = "2026 | INFO | fairseq_cli.train | num. shared model params: 12 (num. trained: 12)\n"
LOADED = "2026 | INFO | fairseq.trainer | Loaded checkpoint a.pt (epoch 1 @ {n} updates)\n"
FRESH = "2026 | INFO | fairseq.trainer | No existing checkpoint found a.pt\n"


def inner(n: int, loss: object = 5.0, wall: float = 0, wpb: float = 100) -> str:
    return INNER.format(n=n, loss=loss, wall=wall, wpb=wpb)


@pytest.fixture
def write(tmp_path: Path):
    """Writes a log of that text; returns its path."""

    def write(text: str, name: str = "x.log") -> str:
        (tmp_path / name).write_bytes(text.encode())
        return str(tmp_path / name)

    return write


def run_of(*arguments: object) -> dict:
    """The (first) run."""
    return json.loads(vaswani("curves", *arguments, "--format", "json").out)["runs"][0]


def series(*arguments: object) -> dict:
    return run_of(*arguments)["series"]


def error(*arguments: object) -> str:
    return vaswani("curves", *arguments).error


@pytest.fixture(scope="module")
def real_run(toy_data_bin, run_fairseq, tmp_path_factory) -> Path:
    """A training that wrote its log as json."""
    folder = tmp_path_factory.mktemp("a run")
    flags = [*STOCK_TINY, "--max-epoch", 2, "--save-dir", folder / "checkpoints"]
    flags += ["--log-format", "json"]
    done = run_fairseq("train", toy_data_bin, *flags)
    assert done.returncode == 0, done.stderr
    (folder / "train.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    return folder


def test_a_real_log_as_json(real_run) -> None:
    found = series(str(real_run / "train.log"))
    # The numbers by hand: each line of an update, and each validation.
    lines = (real_run / "train.log").read_text(encoding="utf-8").split("\n")
    parsed = {
        kind: [json.loads(line.split(f"| {kind} | ")[1]) for line in lines if f"| {kind} |" in line]
        for kind in ("train_inner", "valid")
    }
    for name in ("loss", "ppl", "lr", "gnorm", "wps"):
        assert found[name]["y"] == [float(each[name]) for each in parsed["train_inner"]], name
    assert found["loss"]["updates"] == [int(e["num_updates"]) for e in parsed["train_inner"]]
    assert found["valid ppl"]["y"] == [float(each["valid_ppl"]) for each in parsed["valid"]]
    assert len(found["loss"]["y"]) > 10 and len(found["valid ppl"]["y"]) == 2


def test_first_best_last(write) -> None:
    log = write("".join(inner(n, loss) for n, loss in ((1, 9), (2, 3), (3, 4))))
    found = series(log)["loss"]
    assert (found["first"], found["best"], found["best_update"]) == (9, 3, 2)
    assert (found["last"], found["last_update"], found["not_finite"]) == (4, 3, 0)
    assert series(log)["lr"]["best"] is None
    row = vaswani("curves", log, "--label", "mine").out.split("\n")[2].split()
    assert row == ["mine", "loss", "9", "3", "2", "4", "3"]


def test_what_was_done_again_counts_once(write) -> None:
    first = MODEL + FRESH + inner(10, 9, 20) + VALID.format(n=10, loss=8) + inner(20, 7, 40)
    first += VALID.format(n=20, loss=7.5)
    # Cut off after 20 updates, taken up again at 15; fairseq's clock begins anew.
    again = MODEL + LOADED.format(n=15) + inner(18, 6, 50, 200) + inner(28, 5, 60)
    log = write(first + again)
    found = series(log)
    assert found["loss"]["updates"] == [10, 18, 28] and found["loss"]["y"] == [9, 6, 5]
    assert found["valid loss"]["updates"] == [10]
    hours = [seconds / 3600 for seconds in (20, 40 + 50, 40 + 60)]
    assert series(log, "--x", "time")["loss"]["x"] == pytest.approx(hours)
    # Begun from nothing in the same file: nothing of before stands.
    assert series(write(first + MODEL + FRESH + inner(30, 3)))["loss"]["updates"] == [30]
    # Without a word of it.
    repeated = series(write(inner(10, 9) + inner(20, 8) + inner(10, 7) + inner(15, 6)))
    assert repeated["loss"]["updates"] == [10, 15] and repeated["loss"]["y"] == [7, 6]


def test_validations_lie_between_the_updates_of_training(write) -> None:
    log = write(inner(10, wall=100) + VALID.format(n=15, loss=1) + inner(20, wall=300))
    found = series(log, "--x", "time")
    assert found["valid loss"]["x"] == pytest.approx([200 / 3600])


def test_numbers_that_are_none(write) -> None:
    log = write(inner(1, "nan") + inner(2, 4) + inner(3, "inf"))
    found = series(log)["loss"]
    assert found["y"] == [None, 4, None] and found["not_finite"] == 2
    assert (found["first"], found["best"], found["last"]) == (None, 4, None)
    assert "x: loss: 2 of 3 values are no finite numbers" in vaswani("curves", log).out
    nothing = series(write(inner(1, "nan")))["loss"]
    assert nothing["best"] is None


def test_runs_are_drawn_together(write, tmp_path, monkeypatch) -> None:
    from matplotlib.figure import Figure

    drawn = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda f, *a, **k: (drawn.append(f), save(f, *a, **k)))
    logs = [
        write(inner(1, 9) + inner(2, 8) + VALID.format(n=2, loss=7), "a.log"),
        write(inner(1, 5) + inner(3, 4), "b.log"),
    ]
    picture = tmp_path / "c.png"
    flags = ["--label", "first", "second", "--series", "loss", "lr", "--output", picture]
    assert vaswani("curves", *logs, *flags).code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    loss, lr = drawn[0].axes
    lines = {line.get_label(): list(line.get_ydata()) for line in loss.lines}
    assert lines == {"first": [9, 8], "first, valid": [7], "second": [5, 4]}
    assert {line.get_label() for line in lr.lines} == {"first", "second"}
    assert {text.get_text() for text in loss.get_legend().get_texts()} == set(lines)


def test_a_recipes_folder_and_its_name(tmp_path) -> None:
    (tmp_path / "my run" / "logs").mkdir(parents=True)
    (tmp_path / "my run" / "logs" / "train.log").write_text(inner(1), encoding="utf-8")
    for path in (tmp_path / "my run", tmp_path / "my run" / "logs" / "train.log"):
        assert run_of(path)["label"] == "my run"


def test_other_files_are_refused(write, tmp_path) -> None:
    assert "x.log: no training statistics in it" in error(write("just a text\n"))
    assert "tensorboard --logdir" in error(str(tmp_path))
    log = write(inner(1).replace("gnorm", "x").replace("wall", "y"))
    assert "--series gnorm: no log has it" in error(log, "--series", "gnorm")
    assert "--x time: this log doesn't tell it" in error(log, "--x", "time")
    assert "--label: 2 names for 1 logs" in error(log, "--label", "a", "b")
    assert "a plot ends in .png" in error(log, "--output", str(tmp_path / "c.docx"))
