"""The `vaswani` command: its listing, each command's help, exit codes, errors in one line."""

import argparse
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import fairseq_environment
from vaswani_plugin.cli import __main__ as cli
from vaswani_plugin.cli import _types


def run_vaswani(*args: str, **options: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "vaswani_plugin.cli", *args]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=fairseq_environment(), **options
    )


def test_a_command_without_the_fairseq_that_it_needs_ends_in_one_line():
    """sys.modules[name] = None makes Python find no module of this name."""
    code = (
        "import sys; sys.modules['fairseq'] = None; from vaswani_plugin.cli.__main__ import main; "
        "sys.exit(main(['import', '--checkpoint', 'a', '--data-bin', 'b', '--output', 'c']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=fairseq_environment()
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("vaswani import: error: this command needs fairseq")
    assert done.stderr.count("\n") == 1


CLOSED = [
    ("<&-", ["bleu", "--hypothesis", "-", "--reference", os.devnull], "standard input: Bad file"),
    (">&-", ["bleu", "--hypothesis", __file__, "--reference", __file__], "standard output: Bad"),
    (">&-", ["bleu", "--help"], "standard output: Bad file"),
    (">&-", ["--help"], "standard output: Bad file"),
    ("<&- >&- 2>&-", ["bleu", "--hypothesis", "-", "--reference", os.devnull], ""),
]


@pytest.mark.parametrize(("closed", "arguments", "error"), CLOSED)
def test_a_stream_that_the_shell_has_closed_is_an_error_of_one_line(closed, arguments, error):
    command = [sys.executable, "-m", "vaswani_plugin.cli", *arguments]
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *command],
        capture_output=True,
        text=True,
        env=fairseq_environment(),
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert error in done.stderr and done.stderr.count("\n") == (1 if error else 0)


def test_text_goes_out_as_utf_8_whatever_the_environment_says():
    """As `vaswani translate` writes it. Bytes of a file's name stay as they are."""
    code = (
        "import sys; from types import ModuleType; from vaswani_plugin.cli import __main__ as cli; "
        "fake = ModuleType('fake'); fake.HELP = fake.EXAMPLE = ''; "
        "fake.add_arguments = lambda parser: None; "
        "fake.run = lambda args: print('caf\\xe9 \\u732b \\udcff') or 0; "
        "sys.modules['vaswani_plugin.cli.archs'] = fake; sys.exit(cli.main(['archs']))"
    )
    environment = fairseq_environment() | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment)
    assert (done.returncode, done.stdout) == (0, "caf\xe9 \u732b ".encode() + b"\xff\n")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A command `fake` whose `run` a test may set; it takes ``--number``."""
    module = ModuleType("vaswani_plugin.cli.fake")
    module.HELP, module.EXAMPLE = "do nothing", "vaswani fake --number 3"
    module.add_arguments = lambda parser: parser.add_argument("--number", type=int, default=0)
    module.run = lambda args: args.number
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(cli.COMMANDS, "fake", "fake")
    return module


def test_listing_shows_every_command_with_its_help(capsys: pytest.CaptureFixture) -> None:
    assert cli.main(["--help"]) == 0
    listing = capsys.readouterr().out.split("\n")
    for name in cli.COMMANDS:
        help_line = cli.load_command(name).HELP
        assert help_line and "\n" not in help_line
        assert any(row.split(maxsplit=1) == [name, help_line] for row in listing), name


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_each_command_shows_its_example(name: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main([name, "--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    module = cli.load_command(name)
    assert shown.endswith(f"example:\n  {module.EXAMPLE}\n")
    assert module.EXAMPLE.startswith(f"vaswani {name}")
    assert shown.startswith(f"usage: vaswani {name} ")


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_each_flag_is_explained(name: str) -> None:
    """A help text begins with what the flag is, not in the middle of a sentence about it."""
    for action in cli.command_parser(name)._actions:
        assert action.help, action.dest
        assert not action.help.startswith(("of ", "(", "so many", "for them")), action.help


FOLDER = Path(cli.__file__).parent
SHARED = {"__init__", "__main__", "_flags", "_start", "_types"}


@pytest.mark.parametrize(
    ("read", "good", "bad"),
    [
        (_types.positive_int, {"1": 1}, ["0", "-1", "1.5", "x", ""]),
        (_types.non_negative_int, {"0": 0}, ["-1", "0.5", "x"]),
        (_types.probability, {"1": 1.0, ".5": 0.5}, ["0", "1.1", "nan", "x"]),
        (_types.non_negative_float, {"0": 0.0, "2.5": 2.5}, ["-0.1", "inf", "nan", "x"]),
        (_types.seconds, {"0.003": 0.003}, ["0", "-1", "inf", "nan", "x"]),
    ],
)
def test_values_of_flags(read: Callable, good: dict, bad: list[str]) -> None:
    assert {text: read(text) for text in good} == good
    for text in bad:
        with pytest.raises(argparse.ArgumentTypeError, match=f"^{text}: must be "):
            read(text)


def test_arguments_reach_the_command(fake: ModuleType) -> None:
    assert cli.main(["fake", "--number", "3"]) == 3


def test_no_command_and_unknown_command(capsys: pytest.CaptureFixture) -> None:
    assert cli.main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "commands:" in captured.err
    assert cli.main(["avrage"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("vaswani: error: unknown command 'avrage': did you mean 'average'?")
    assert "archs, average, bleu" in error and error.count("\n") == 1


def test_wrong_flags_exit_2(fake: ModuleType, capsys: pytest.CaptureFixture) -> None:
    # "--num" would be taken for --number and change its meaning with the next flag of that start.
    for arguments in (["--number", "x"], ["--none"], ["--num", "3"]):
        with pytest.raises(SystemExit) as stop:
            cli.main(["fake", *arguments])
        assert stop.value.code == 2
        assert "vaswani fake: error:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("too\n  many"), "too many"),
        (ValueError(), "ValueError"),
        (OSError("no space"), "no space"),
        (FileNotFoundError(2, "No such file or directory", "a.pt"), "a.pt: No such file"),
    ],
)
def test_users_errors_are_one_line(
    fake: ModuleType, error: Exception, message: str, capsys: pytest.CaptureFixture
) -> None:
    def fail(args: argparse.Namespace) -> int:
        raise error

    fake.run = fail
    assert cli.main(["fake"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith(f"vaswani fake: error: {message}") and shown.count("\n") == 1


def test_defects_stay_loud(fake: ModuleType) -> None:
    def fail(args: argparse.Namespace) -> int:
        raise KeyError("defect")

    fake.run = fail
    with pytest.raises(KeyError):
        cli.main(["fake"])


def test_interrupt_exits_130(fake: ModuleType, capsys: pytest.CaptureFixture) -> None:
    def interrupt(args: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    fake.run = interrupt
    assert cli.main(["fake"]) == 130
    assert capsys.readouterr().err == "vaswani fake: interrupted\n"


def test_module_runs_as_a_program() -> None:
    result = run_vaswani("bleu", "--hypothesis", "absent", "--reference", "absent")
    assert result.returncode == 1
    message = "vaswani bleu: error: absent: No such file or directory"
    assert result.stderr.rstrip("\n").split("\n")[-1] == message
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("level", ["", "info", "nonsense"])
def test_the_level_of_the_log(fake: ModuleType, capsys, monkeypatch, level: str) -> None:
    before = logging.getLogger().level
    monkeypatch.setenv("LOGLEVEL", level)
    try:
        code = cli.main(["fake"])
    finally:
        logging.getLogger().setLevel(before)
    error = capsys.readouterr().err
    assert (
        (code == 1 and "LOGLEVEL=NONSENSE: must be" in error) if level == "nonsense" else code == 0
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="NOT CHECKED: no /dev/full here")
def test_a_full_disk_behind_standard_output() -> None:
    command = [sys.executable, "-m", "vaswani_plugin.cli", "cost"]
    environment = fairseq_environment() | {"PYTHONUNBUFFERED": ""}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment
        )
    message = "vaswani cost: error: standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, message)


def test_reader_that_leaves_early_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    code = (
        "import sys, types; from vaswani_plugin.cli import __main__ as cli;"
        "fake = types.SimpleNamespace(HELP='x', EXAMPLE='x', add_arguments=lambda p: None,"
        "run=lambda a: print('x' * 100000) or 0);"
        "cli.COMMANDS['fake'] = 'fake'; sys.modules['vaswani_plugin.cli.fake'] = fake;"
        "sys.exit(cli.main(['fake']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        env=fairseq_environment(),
    )
    os.close(write)
    # Python would say "Exception ignored ... BrokenPipeError" when it closes stdout.
    shown = process.communicate(timeout=120)[1].lower().replace(" ", "")
    assert "brokenpipe" not in shown
    assert process.returncode == 1
