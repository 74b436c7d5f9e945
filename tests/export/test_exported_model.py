"""What exports refuse, and folders that are complete or not there."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from vaswani_plugin.export.exported_model import departures, new_folder
from vaswani_plugin.model.configuration import Configuration


def test_a_link_to_an_empty_folder(tmp_path: Path) -> None:
    """The files come into the link's target, and the link stays."""
    target, link = tmp_path / "target", tmp_path / "link"
    target.mkdir()
    link.symlink_to(target)
    with new_folder(link) as folder:
        (folder / "file").touch()
    assert link.is_symlink() and (target / "file").is_file()
    assert sorted(tmp_path.iterdir()) == [link, target]


@pytest.mark.parametrize("name", [".", "../here"])
def test_the_current_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The shell would remain in a folder that is gone."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(ValueError, match="is the current folder"), new_folder(Path(name)):
        pass
    assert list(tmp_path.iterdir()) == [tmp_path / "here"]


def test_nothing_is_left_after_an_error(tmp_path: Path) -> None:
    output = tmp_path / "new"
    with pytest.raises(RuntimeError), new_folder(output) as folder:
        (folder / "file").touch()
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_an_option_that_exports_do_not_know_is_refused():
    @dataclass(frozen=True)
    class Newer(Configuration):
        activation: str = "relu"

    assert departures(Newer()) == []
    assert departures(Newer(activation="gelu")) == ["--activation gelu"]


@pytest.mark.parametrize("name", ["max_source_positions", "max_target_positions"])
def test_more_positions_than_a_table_holds_are_refused(name):
    """2,000,000,000 in a config.json would be 23 GB in another program's file."""
    flag = "--" + name.replace("_", "-")
    assert departures(Configuration(**{name: 2_000_000_000})) == [f"{flag} 2000000000"]
    assert departures(Configuration(**{name: 2_000_000_000}, positions="learned")) == []
