"""The `vaswani` command: exit codes, errors in one line, closed streams, what a start imports."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from toy_bundle import write_toy_bundle

from tests.conftest import fairseq_environment
from tests.support.commands import vaswani
from vaswani_plugin.cli import __main__ as cli
from vaswani_plugin.cli.command import Count
from vaswani_plugin.errors import UserError

COMMAND = [sys.executable, "-m", "vaswani_plugin.cli"]
HEAVY = {"torch", "fairseq", "hydra", "omegaconf"}
LIBRARIES = {*HEAVY, "numpy", "tqdm", "tabulate", "sacrebleu", "nltk", "matplotlib"}


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
        (UserError("too\n  many"), "too many"),
        (UserError(), "UserError"),
        (OSError("no space"), "no space"),
        (FileNotFoundError(2, "No such file or directory", "a.pt"), "a.pt: No such file"),
        (MemoryError(), "out of memory"),
        (ModuleNotFoundError("no", name="fairseq.tasks"), "this command needs fairseq"),
    ],
)
def test_users_errors_are_one_line(fake, error, message):
    fake.append(error)
    assert vaswani("fake").error.startswith(f"vaswani fake: error: {message}")


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (ModuleNotFoundError("no", name="numpy"), "0"),
        (ValueError("too many values to unpack"), ""),
        (OSError("no space"), "1"),
    ],
)
def test_defects_and_what_is_asked_for_show_their_traceback(fake, monkeypatch, error, asked):
    monkeypatch.setenv("VASWANI_TRACEBACK", asked)
    fake.append(error)
    with pytest.raises(type(error)):
        cli.main(["fake"])


@pytest.mark.parametrize(("level", "code"), [("", 0), ("info", 0), ("nonsense", 1)])
def test_the_level_of_the_log(fake, monkeypatch, level, code):
    monkeypatch.setenv("LOGLEVEL", level)
    done = vaswani("fake")
    assert done.code == code and ("LOGLEVEL=NONSENSE: must be" in done.err) == bool(code)


def test_text_goes_out_as_utf_8_whatever_the_environment_says(tmp_path):
    """As `vaswani translate` writes it; bytes of a file's name stay as they are."""
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xc3\xa9-\xff")
    os.mkdir(folder)
    (tmp_path / "log").write_text('a | train_inner | {"loss": "1", "num_updates": "1"}\n')
    program = [*COMMAND, "curves", "log", "--label", folder]
    for encoding in ("latin-1", "utf-8:strict"):
        environment = fairseq_environment() | {"PYTHONIOENCODING": encoding}
        done = subprocess.run(program, capture_output=True, env=environment, cwd=tmp_path)
        assert done.returncode == 0 and os.fsencode(folder) in done.stdout, done.stderr


def imported(folder: Path, *arguments: str) -> set[str]:
    """Top-level packages that a command imports, outside the standard library."""
    program = [sys.executable, "-X", "importtime", *COMMAND[1:], *arguments]
    options = {"capture_output": True, "text": True, "env": fairseq_environment()}
    done = subprocess.run(program, cwd=folder, **options)
    assert done.returncode == 0, done.stderr
    names = re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE)
    assert "vaswani_plugin" in names, "the list was not read"
    return {name.split(".")[0] for name in names} - sys.stdlib_module_names


@pytest.mark.parametrize("module", [None, *sorted(set(cli.COMMANDS.values()))])
def test_help_imports_nothing_but_the_plugin(module, tmp_path):
    """The help of a command of each module, and the list of commands."""
    command = [name for name, place in cli.COMMANDS.items() if place == module][:1]
    assert not imported(tmp_path, *command, "--help") & LIBRARIES


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("bleu --hypothesis text --reference text --language de", set()),
        ("cost --hours 3 --device H100", set()),
        ("user-dir", set()),
        ("average --inputs model/model.pt --output mean.pt", {"torch"}),
        ("archs vaswani_tiny", {"torch"}),
    ],
)
def test_a_command_imports_torch_and_fairseq_only_if_it_needs_them(line, expected, tmp_path):
    write_toy_bundle(tmp_path)
    (tmp_path / "text").write_text("a cat sat .\nthe dog runs .\n", encoding="utf-8")
    assert imported(tmp_path, *line.split()) & HEAVY == expected
