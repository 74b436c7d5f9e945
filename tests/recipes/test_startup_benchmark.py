"""recipes/benchmarks/startup: its arithmetic, a real round, and bad flags."""

import json
import sys
from pathlib import Path

import pytest
from toy_bundle import write_toy_bundle

from tests.conftest import REPO

sys.path.insert(0, str(REPO / "recipes" / "benchmarks"))

import startup  # noqa: E402

from vaswani_plugin.errors import UserError  # noqa: E402
from vaswani_plugin.text.settings import CTRANSLATE2_MODEL  # noqa: E402


def test_ratios_are_of_medians_without_the_first_round() -> None:
    times = {startup.MEASURE: iter([9.0, 2.0, 1.0, 4.0]), "x": iter([9.0, 1.0, 0.5, 30.0])}

    def clock(command: list[str], folder: Path) -> float:
        assert (folder / "hyp").read_text(encoding="utf-8") == startup.TEXTS["hyp"]
        return next(times[command[-1]])

    torch, row = startup.compare({"x": 0.3}, 3, clock)
    assert torch == {"command": "import torch", "seconds": 2.0, "ratio": 1.0, "goal": None}
    assert row == {"command": "vaswani x", "seconds": 1.0, "ratio": 0.5, "goal": 0.3}
    shown = startup.as_table([torch, row]).split("\n")
    assert shown[-1].split() == ["vaswani", "x", "1.00", "0.50", "0.30"]


def test_a_real_round(monkeypatch, capsys) -> None:
    """No ratio is asserted: other programs share the machine."""
    kept = {k: v for k, v in startup.COMMANDS.items() if k.split()[0] in ("--help", "evalb")}
    monkeypatch.setattr(startup, "COMMANDS", kept)
    startup.main(["--repetitions", "1", "--format", "json"])
    rows = json.loads(capsys.readouterr().out)
    assert [row["command"].split()[:2] for row in rows] == [
        ["import", "torch"], ["vaswani", "--help"], ["vaswani", "evalb"],
    ]  # fmt: skip
    assert all(row["seconds"] > 0 for row in rows)


def test_a_bundle_translates_a_sentence(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setattr(startup, "COMMANDS", {})
    monkeypatch.setattr(startup, "MEASURE", "import json")  # torch takes two seconds a round
    model = write_toy_bundle(tmp_path)
    startup.main(["--repetitions", "1", "--format", "json", "--model", str(model)])
    _, row = json.loads(capsys.readouterr().out)
    assert row["command"] == f"vaswani translate --cpu --model {model} sentence"
    assert row["seconds"] > 0 and row["goal"] == 1.5


def test_an_export_has_another_goal(monkeypatch, tmp_path) -> None:
    goals = []
    monkeypatch.setattr(startup, "COMMANDS", {})
    monkeypatch.setattr(startup, "compare", lambda commands, _: goals.extend(commands.values()))
    (tmp_path / CTRANSLATE2_MODEL).touch()
    models = ["--model", str(tmp_path), "--model", str(tmp_path / "none")]
    startup.main(["--format", "json", *models])
    assert goals == [0.4, 1.5]


def test_bad_flags_and_commands(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(startup, "COMMANDS", {})
    monkeypatch.setattr(startup, "MEASURE", "import json")
    with pytest.raises(UserError, match="--repetitions 0"):
        startup.main(["--repetitions", "0"])
    with pytest.raises(UserError, match="exit code 1"):
        startup.main(["--repetitions", "1", "--model", str(tmp_path / "none")])
    with pytest.raises(UserError, match="without blanks"):
        startup.main(["--model", str(tmp_path / "a b")])
