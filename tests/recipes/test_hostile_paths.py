"""Recipes in folders whose names a shell would obey: none of it runs, and the right folder is used.

Each name holds commands that would make the file `pwned` where the recipe was started.
"""

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.scripts import ROOT, assert_one_line_error, run_bash
from vaswani_plugin.cli.__main__ import command_parser

NAMES = {
    "substitution": "a $(touch pwned) `touch pwned` ${HOME} b",
    "quotes": """it's "so" \\' \\" '; touch pwned; '""",
    "operators": "; touch pwned; & touch pwned | touch pwned > pwned",
    "dash": "-n --version; touch pwned",
    "patterns": "* ? [a-z] {a,b} ~ ! # %s %n",
    "letters": "ünï\u2028cødé \u202e\U0001f600",
}
EVERYTHING = "-w " + " ".join(NAMES.values()).replace("/", "")
RECIPES = [
    path.stem
    for path in sorted((ROOT / "recipes").glob("*.sh"))
    if path.stem not in ("table3", "ancestors")  # their dry runs load the plugin: see below
]
# What a recipe asks for before it begins.
NEEDED = {
    "lm": ["--corpus", "tinyshakespeare"],
    "own_text": ["--train", str(ROOT / "setup.py"), str(ROOT / "README.md"), "--pair", "aa-bb"],
}


# What `run_to` and `run_logged` print after a command: a redirection to a quoted word.
_REDIRECTION = re.compile(r""" (?:2>&1 \| tee -a|>) (\$'(?:[^'\\]|\\.)*'|(?:[^ \\]|\\.)+)$""")
_PART = """while IFS= read -r line; do
  eval "words=($line)"
  printf '%s\\0' "${words[@]}"
  printf '\\0'
done"""


def commands(done: subprocess.CompletedProcess, folder: Path) -> list[list[str]]:
    """The commands that a recipe printed, as the words into which a shell parts them."""
    lines = [line[2:] for line in done.stderr.split("\n") if line.startswith("+ ")]
    printed = "".join(_REDIRECTION.sub(r" \1", line) + "\n" for line in lines)
    parted = subprocess.run(
        ["bash", "-c", _PART], input=printed, capture_output=True, text=True, cwd=folder
    )
    assert parted.stderr == ""
    return [line.split("\0") for line in parted.stdout.split("\0\0")[:-1]]


def dry_run(recipe: str, folder: Path, *options: str) -> list[list[str]]:
    """The commands of a dry run that is started in `folder`."""
    arguments = ["--dry-run", "--cpu", "--scale", "tiny", *NEEDED.get(recipe, []), *options]
    done = run_bash(ROOT / "recipes" / f"{recipe}.sh", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    found = commands(done, folder)
    assert found
    return found


def words_below(found: list[list[str]], folder: Path) -> list[str]:
    """The words of commands that name something in a folder."""
    return [word for line in found for word in line if word.startswith(f"{folder}/")]


@pytest.mark.parametrize("recipe", RECIPES)
def test_no_recipe_runs_what_its_folder_is_called(recipe, tmp_path):
    work = tmp_path / EVERYTHING
    found = dry_run(recipe, tmp_path, "--work", EVERYTHING)
    assert words_below(found, work)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_data_and_work(name, tmp_path):
    """Given relative, as people do; --data is text in a folder of the same kind of name."""
    data = tmp_path / f"{name} data"
    data.mkdir()
    for split in ("train", "valid", "test"):
        for language in ("en", "de"):
            (data / f"{split}.{language}").write_text("a b c\n")
    options = ("--work", name, "--data", data.name, "--stop-stage", "unpack")
    found = dry_run("quickstart", tmp_path, *options)
    assert len(words_below(found, data)) == 6
    done = run_bash(ROOT / "recipes" / "quickstart.sh", "--cpu", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {name, data.name}
    assert (tmp_path / name / "raw" / "test.de").read_text() == "a b c\n"


def test_checkpoints_in_a_folder_whose_name_is_a_pattern(tmp_path):
    folder = tmp_path / NAMES["patterns"] / "checkpoints"
    folder.mkdir(parents=True)
    for name in ("checkpoint1.pt", "checkpoint2.pt", "checkpoint_last.pt"):
        (folder / name).touch()
    lines = """recipe=made-up VASWANI_ENV_FUNCTIONS_ONLY=1
      source "$1/recipes/lib/translation.sh"
      work=$2
      count_checkpoints 'checkpoint[0-9]*.pt'
      count_checkpoints 'checkpoint.best_loss_*.pt'"""
    done = run_bash("-c", lines, "bash", ROOT, folder.parent)
    assert done.stdout.split() == ["2", "0"], done.stderr


@pytest.mark.parametrize("script", ["recipes/quickstart.sh", "recipes/benchmarks/startup.sh"])
def test_a_search_path_for_cd_changes_nothing(script):
    """Where CDPATH is exported, a relative `cd` may print the folder, or find another one."""
    done = run_bash(script, "--help", cwd=ROOT, CDPATH=f".:{ROOT.parent}")
    assert (done.returncode, done.stderr) == (0, "")


def test_text_that_looks_like_flags(tmp_path):
    """Lines of the user's own test text become prompts and a sentence to look at."""
    lines = """VASWANI_ENV_FUNCTIONS_ONLY=1
      source "$1/recipes/lib/language_model.sh"
      source "$1/recipes/lib/perplexity.sh"
      dry_run=1 prompts=(-Hello --cpu)
      write_sample
      source <(sed -n '/^stage_score/,/^}/p' "$1/recipes/quickstart.sh")
      score_translations() { :; }
      example_sentence() { echo --cpu; }
      run() { printf '%s\\n' "$@"; }
      dry_run=''
      stage_score"""
    done = run_bash("-c", lines, "bash", ROOT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (words,) = commands(done, tmp_path)
    assert words[:2] == ["vaswani", "complete"]
    assert command_parser("complete").parse_args(words[2:-1]).prompts == ["-Hello", "--cpu"]
    words = done.stdout.split("\n")[2:-1]
    assert command_parser("attention").parse_args(words).source == "--cpu"


def test_binarized_data_in_a_folder_whose_name_is_a_pattern(tmp_path):
    data = tmp_path / NAMES["patterns"]
    data.mkdir()
    (data / "dict.en.txt").touch()
    options = ("--dry-run", "--cpu", "--stop-stage", "prepare", "--data-bin", data.name)
    done = run_bash(ROOT / "recipes" / "table3.sh", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (data / "dict.en.txt").unlink()
    done = run_bash(ROOT / "recipes" / "table3.sh", *options, cwd=tmp_path)
    assert_one_line_error(done, "--data-bin", "no binarized data (dict.*.txt) there")


def test_a_line_break_is_refused(tmp_path):
    (tmp_path / "a\nb").mkdir()
    for option in ("--work", "--data"):
        done = run_bash(
            ROOT / "recipes" / "quickstart.sh", "--dry-run", option, "a\nb", cwd=tmp_path
        )
        assert_one_line_error(done, "quickstart: error: ", "line break")
    assert list((tmp_path / "a\nb").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["table3", "ancestors"])
def test_recipes_of_several_trainings(recipe, tmp_path):
    found = dry_run(recipe, tmp_path, "--work", EVERYTHING)
    assert words_below(found, tmp_path / EVERYTHING)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_whole_run(tmp_path):
    """From the text to the result."""
    work = tmp_path / EVERYTHING
    arguments = ("--cpu", "--scale", "tiny", "--work", EVERYTHING)
    done = run_bash(ROOT / "recipes" / "quickstart.sh", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert [path.name for path in tmp_path.iterdir()] == [EVERYTHING]
    assert (work / "result.json").is_file() and (work / "model" / "model.pt").is_file()
