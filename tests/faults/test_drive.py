"""A sample of `drive.py`: five points at random, each of which must be survived."""

import re
import sys

from tests.faults import drive


def test_five_points(tmp_path, monkeypatch, capsys):
    flags = ["--points", "5", "--seed", "2", "--minutes", "20", "--work", str(tmp_path / "w")]
    monkeypatch.setattr(sys, "argv", ["drive.py", *flags])
    code = drive.main()
    said = capsys.readouterr().out
    assert code == 0, said[-3000:]
    assert re.search(r"^5 points in \d+ s, 0 chains failed$", said, re.MULTILINE)
