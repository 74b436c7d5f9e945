"""Every shell and Python block of README and docs: run on a small bundle, or marked with a reason.

The line before a block says what happens to it:

    <!-- run -->              it is run here, after the other ones of its page, in one folder
    <!-- not run: REASON -->  its programs, scripts and flags are looked up
    <!-- from: FILE -->       it quotes FILE; test_pages.py compares them
"""

import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import preloaded
import pytest
from toy_bundle import write_toy_bundle

from tests.conftest import REPO, fairseq_environment
from vaswani_plugin.cli.__main__ import COMMANDS, command_parser

PAGES = [
    REPO / "README.md",
    REPO / "CONTRIBUTING.md",
    *sorted((REPO / "docs").rglob("*.md")),
]
LANGUAGES = {"bash", "sh", "shell", "python"}
ACTIVATE = "source recipes/lib/env.sh"
"""Left out of a block that is run: the tests run in an activated environment."""
PROGRAMS = {
    *("fairseq-train", "fairseq-generate", "fairseq-preprocess", "fairseq-eval-lm"),
    *("fairseq-hydra-train", "fairseq-interactive", "fairseq-validate", "fairseq-score", "curl"),
    *("pip", "pre-commit", "sbatch", "source", "echo", "torchrun", "git", "mkdir", "cp"),
}
"""Programs of others, and of the shell."""

_BLOCK = re.compile(r"(?:^<!-- (.*?) -->\n)?^ *```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block and the mark on the line before it."""

    page: str
    mark: str
    language: str
    code: str


def blocks() -> list[Block]:
    return [
        Block(str(page.relative_to(REPO)), *match)
        for page in PAGES
        for match in _BLOCK.findall(page.read_text(encoding="utf-8"))
        if match[1] in LANGUAGES
    ]


def test_every_block_is_run_or_says_why_not():
    unmarked = [
        f"{block.page}: {block.code.split(chr(10))[0]}"
        for block in blocks()
        if block.mark != "run" and not re.match(r"(not run|from): \S", block.mark)
    ]
    assert not unmarked
    assert sum(block.mark == "run" for block in blocks()) >= 8


def commands(code: str) -> list[list[str]]:
    """The simple commands of a shell block, as words."""
    found = []
    for line in code.replace("\\\n", " ").split("\n"):
        line = line.strip().removeprefix("$ ")
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise AssertionError(f"{line}: {error}") from error
        command: list[str] = []
        for word in [*words, "|"]:
            if word in ("|", "&&", "||", ";"):
                found += [command] if command else []
                command = []
            else:
                command.append(word)
    return found


@cache
def recipe_text(name: str) -> str:
    """The recipe and what the recipes share."""
    files = [REPO / name, *sorted((REPO / "recipes" / "lib").glob("*.sh"))]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def flags_of(command: list[str]) -> list[str]:
    """Our own flags among the words: what stands behind a lone `--` is another program's."""
    words = command[: command.index("--")] if "--" in command else command
    return [word.partition("=")[0] for word in words if re.match(r"--\w", word)]


def check(command: list[str]) -> None:
    """The program, script and flags of a command exist."""
    command = [word for word in command if not re.match(r"\w+=", word)]
    program, *words = command or ["echo"]
    if program == "vaswani":
        assert words[0] in COMMANDS or words[0] == "--help", command
        known = command_parser(words[0]).format_help()
    elif program in ("bash", "python") and words[0] != "-m":
        assert (REPO / words[0]).is_file(), command
        if words[0].startswith("recipes/") and words[0].endswith(".sh"):
            known = recipe_text(words[0])
        else:
            known = (REPO / words[0]).read_text(encoding="utf-8")
        if words[0] == "tests/run.sh":
            return  # pytest's flags
    elif program == "python":
        return
    else:
        assert program in PROGRAMS, command
        return
    for flag in flags_of(words[1:]):
        assert re.search(rf"{flag}(?![\w-])", known), f"{flag}: not of {' '.join(command)}"


@pytest.mark.parametrize(
    "block",
    [b for b in blocks() if b.language != "python"],
    ids=lambda block: f"{block.page}:{block.code.split(chr(10))[0][:40]}",
)
def test_commands_and_flags_exist(block):
    for command in commands(block.code):
        check(command)


def test_a_wrong_flag_is_noticed():
    for line in (
        "vaswani translate --model m --bean 4",
        "bash recipes/quickstart.sh --gpu 4",
        "vaswani translator",
        "python data-prep/trees.py clean --wrong",
        "bash recipes/none.sh",
    ):
        with pytest.raises(AssertionError):
            check(*commands(line))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the bundle at the quickstart's place; its weights are random."""
    root = tmp_path_factory.mktemp("docs")
    (root / "work" / "quickstart").mkdir(parents=True)
    write_toy_bundle(root / "work" / "quickstart", positions=100)
    return root


def pages_to_run() -> dict[str, list[Block]]:
    found: dict[str, list[Block]] = {}
    for block in blocks():
        if block.mark == "run":
            found.setdefault(block.page, []).append(block)
    return found


@pytest.mark.parametrize("page", pages_to_run())
def test_blocks_run(page, folder):
    """With the small bundle in place of the quickstart's; each block has to print or write."""
    (folder / "mine.en").write_text("A bird in the garden.\n", encoding="utf-8")
    folders = (preloaded.commands(), Path(sys.executable).parent, os.environ["PATH"])
    path = os.pathsep.join(map(str, folders))
    for block in pages_to_run()[page]:
        if block.language == "python":
            command = [sys.executable, "-c", block.code]
        else:
            lines = [line for line in block.code.split("\n") if not line.startswith(ACTIVATE)]
            command = ["bash", "-euo", "pipefail", "-c", "\n".join(lines)]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=folder,
            timeout=240,
            env=fairseq_environment(PATH=path),
        )
        assert done.returncode == 0, f"{block.code}\n{done.stderr[-2000:]}"
        assert done.stdout.strip(), block.code
