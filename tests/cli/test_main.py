"""The `vaswani` command: exit codes, errors in one line, closed streams, the level of the log."""

import logging
import os
import subprocess
import sys
from types import ModuleType

import pytest

from tests.conftest import fairseq_environment
from tests.support.commands import vaswani
from vaswani_plugin.cli import __main__ as cli
from vaswani_plugin.cli.command import Count


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> list:
    """`vaswani fake --number N` adds N to the list, or raises what is in the list."""
    module, calls = ModuleType("vaswani_plugin.cli.fake"), []

    def fake(*, number: Count = 1) -> None:
        """Do nothing.

        Example: vaswani fake --number 3

        Args:
            number: a number.
        """
        if calls and isinstance(calls[0], Exception):
            raise calls[0]
        calls.append(number)

    module.fake = fake
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(cli.COMMANDS, "fake", "fake")
    return calls


def test_a_command_is_its_function(fake):
    assert vaswani("fake", "--number", 3).code == 0 and fake == [3]
    shown = vaswani("fake", "--help").out
    assert "Do nothing." in shown and "--number N  a number (default: 1)" in shown
    assert vaswani("fake", "--number", 0).err.endswith("argument --number: 0: must be at least 1\n")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("too\n  many"), "too many"),
        (ValueError(), "ValueError"),
        (OSError("no space"), "no space"),
        (FileNotFoundError(2, "No such file or directory", "a.pt"), "a.pt: No such file"),
        (MemoryError(), "out of memory"),
        (ModuleNotFoundError("no", name="fairseq.tasks"), "this command needs fairseq"),
    ],
)
def test_users_errors_are_one_line(fake, error, message):
    fake.append(error)
    assert vaswani("fake").error.startswith(f"vaswani fake: error: {message}")


@pytest.mark.parametrize("defect", [KeyError("defect"), ModuleNotFoundError("no", name="numpy")])
def test_defects_stay_loud(fake, defect):
    fake.append(defect)
    with pytest.raises(type(defect)):
        cli.main(["fake"])


@pytest.mark.parametrize(("level", "code"), [("", 0), ("info", 0), ("nonsense", 1)])
def test_the_level_of_the_log(fake, monkeypatch, level, code):
    monkeypatch.setenv("LOGLEVEL", level)
    done = vaswani("fake")
    assert done.code == code and ("LOGLEVEL=NONSENSE: must be" in done.err) == bool(code)


def test_a_command_that_imports_fairseq_keeps_the_level_of_the_log(monkeypatch, tmp_path):
    """fairseq sets it to DEBUG for every library."""
    from vaswani_plugin.cli import command

    monkeypatch.setattr(command, "register", lambda: logging.getLogger().setLevel(logging.DEBUG))
    before = logging.getLogger().level
    command.start_fairseq()
    assert logging.getLogger().level == before


CLOSED = [
    ("<&-", ["bleu", "--hypothesis", "-", "--reference", os.devnull], "standard input: Bad file"),
    (">&-", ["bleu", "--hypothesis", __file__, "--reference", __file__], "standard output: Bad"),
    (">&-", ["--help"], "standard output: Bad file"),
    ("<&- >&- 2>&-", ["bleu", "--hypothesis", "-", "--reference", os.devnull], ""),
]


@pytest.mark.parametrize(("closed", "arguments", "error"), CLOSED)
def test_a_stream_that_the_shell_has_closed_is_an_error_of_one_line(closed, arguments, error):
    """In a process: Python sets up its streams before the command starts."""
    command = [sys.executable, "-m", "vaswani_plugin.cli", *arguments]
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *command],
        capture_output=True,
        text=True,
        env=fairseq_environment(),
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert error in done.stderr and done.stderr.count("\n") == (1 if error else 0)


def test_text_goes_out_as_utf_8_whatever_the_environment_says(tmp_path):
    """As `vaswani translate` writes it; bytes of a file's name stay as they are."""
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xc3\xa9-\xff")
    os.mkdir(folder)
    (tmp_path / "log").write_text('a | train_inner | {"loss": "1", "num_updates": "1"}\n')
    command = [sys.executable, "-m", "vaswani_plugin.cli", "curves", "log", "--label", folder]
    environment = fairseq_environment() | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, capture_output=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert os.fsencode(folder) in done.stdout
