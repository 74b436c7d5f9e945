"""Our models load and run where fairseq can't be imported."""

import json
import subprocess
from pathlib import Path

import pytest
import toy_language_model as toy
from toy_parser import write_parser_bundle

from tests.conftest import fairseq_environment
from tests.support.commands import run_python
from vaswani_plugin.text.settings import TextSettings

BLOCK = "import sys; sys.modules.update(dict.fromkeys(['fairseq', 'hydra', 'omegaconf']));"
"""None in `sys.modules` makes Python refuse the import."""
COMMAND = f"{BLOCK} from vaswani_plugin.cli.__main__ import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """Bundles of a language model, a summarizer and a parser."""
    folder = tmp_path_factory.mktemp("bundles")
    found = {"lm": toy.write_bundle(folder / "lm", TextSettings("words"), toy.WORDS)}
    settings = TextSettings("words", article_tokens=12, summary_tokens=6)
    found["summaries"] = toy.write_bundle(folder / "s", settings, [*toy.WORDS, "<sep>"])
    (folder / "parser").mkdir()
    found["parser"] = write_parser_bundle(folder / "parser", model=GUIDED)
    return found


GUIDED = ("--task", "vaswani_parsing", "--arch", "vaswani_parser_debug", "--next-word")


def run(program: str, *arguments: object, stdin: str = "") -> subprocess.CompletedProcess:
    return run_python(
        *("-c", program, *arguments),
        input=stdin,
        capture_output=True,
        text=True,
        env=fairseq_environment(),
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("lm", ("complete", "--max-new-tokens", "3", "--format", "json")),
        ("lm", ("lm", "--format", "json", "--text", "TEXT", "--dynamic")),
        ("summaries", ("summarize", "--format", "json")),
        ("parser", ("parse", "--format", "json")),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_the_commands(folders, name, arguments, tmp_path):
    text = toy.write_lines(tmp_path / "text", ["ba be bi"])
    arguments = [text if argument == "TEXT" else argument for argument in arguments]
    done = run(COMMAND, *arguments, "--cpu", "--model", folders[name], stdin="ba be bi\n")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) > 3 and done.stderr == ""
