"""docs/seeds.md names files, commands and models that exist."""

import re

import pytest

from tests.conftest import PLUGIN, REPO
from vaswani_plugin.cli.__main__ import COMMANDS

PAGE = (REPO / "docs" / "seeds.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"`([^`]+)`", PAGE)


@pytest.mark.parametrize("quoted", sorted({q for q in QUOTED if re.match(r"[a-z_]+/", q)}))
def test_files_are_there(quoted):
    assert (PLUGIN / quoted).exists() or (REPO / quoted).exists()


def test_commands_are_there():
    for quoted in QUOTED:
        words = quoted.split()
        if words[0] == "vaswani":
            assert words[1] in COMMANDS
        elif words[0] in ("bash", "python"):
            assert (REPO / words[1]).is_file(), quoted


def test_every_row_says_what_came_of_it():
    rows = [line for line in PAGE.split("\n") if re.match(r"\| S\d", line)]
    assert len(rows) > 50
    for row in rows:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        assert len(cells) == 5, row
        assert cells[3] or cells[4], row
    assert {seed for row in rows for seed in re.findall(r"S\d", row.split("|")[1])} == {
        *("S0", "S1", "S2", "S3", "S4"),
    }
