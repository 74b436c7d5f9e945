"""common.sh: options, stages that are skipped, broken or run again, dry runs."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.scripts import ROOT, assert_one_line_error, run_bash

RECIPE = """#!/usr/bin/env bash
# The help of a made-up recipe.
set -euo pipefail
recipe=made-up
stages=(one two three)
VASWANI_ROOT={root}
source "{root}/recipes/lib/common.sh"
size=5 top_size=6
recipe_option() {{ set_option "$@" size top_size; }}
recipe_defaults() {{ need_counts size top_size; }}
key_one() {{ echo "data $data"; }}
key_two() {{ key_one; echo "size $size"; }}
key_three() {{ key_two; }}
stage_one() {{ run_to "$work/one" echo one; }}
stage_two() {{
  fresh_folder "$work/two"
  run touch "$work/two/$size"
  if [[ -n "${{BREAK:-}}" ]]; then false; fi
}}
stage_three() {{ run_logged "$work/log" echo "three $size"; }}
show_result() {{ echo "the end"; }}
main_recipe "$@"
"""

# Stage two depends on what stage one wrote, not on how.
BY_CONTENT = (
    RECIPE.replace("size=5", "by_content=(two)\nsize=5")
    .replace('echo "data $data"', 'digests "$data/input"')
    .replace("{{ key_one; echo", '{{ digests "$work/one"; echo')
    .replace('"$work/one" echo one', '"$work/one" head -c 3 "$data/input"')
)


@pytest.fixture
def recipe(tmp_path) -> Path:
    """A recipe of three stages, in a folder with a space in its name."""
    folder = tmp_path / "my recipes"
    folder.mkdir()
    path = folder / "made-up.sh"
    path.write_text(RECIPE.format(root=ROOT))
    return path


@pytest.fixture
def go(recipe, tmp_path):
    """Runs the recipe in the work folder `my work`; returns the process."""

    def run(*args: object, **environment: str):
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        work = tmp_path / "my work"
        return run_bash(recipe, "--cpu", "--work", work, *args, PATH=path, **environment)

    return run


def stages_run(done) -> list[str]:
    """The stages that did something, by the lines on stderr."""
    lines = [line for line in done.stderr.split("\n") if line.startswith("made-up: stage")]
    return [line.split(", ")[1] for line in lines if "done before" not in line]


def test_a_finished_stage_is_skipped(go):
    first = go()
    assert first.returncode == 0, first.stderr
    assert stages_run(first) == ["one", "two", "three"]
    assert first.stdout.endswith("the end\n")
    second = go()
    assert second.returncode == 0 and stages_run(second) == []


def test_another_option_reruns_what_depends_on_it(go, tmp_path):
    go()
    assert stages_run(go("--size", 6)) == ["two", "three"]
    assert [path.name for path in (tmp_path / "my work" / "two").iterdir()] == ["6"]
    # and back: what was finished before with 5 has been overwritten
    assert stages_run(go("--size=5")) == ["two", "three"]
    assert stages_run(go("--data", tmp_path)) == ["one", "two", "three"]


def test_what_comes_after_a_stage_sees_it_done_now_or_before(recipe, go):
    """The size of stage two is what stage one wrote."""
    hook = 'after_one() { size=$(wc -c <"$work/one"); }\nmain_recipe'
    recipe.write_text(RECIPE.format(root=ROOT).replace("main_recipe", hook))
    first = go()
    assert stages_run(first) == ["one", "two", "three"] and "my\\ work/two/4" in first.stderr
    assert stages_run(go()) == []
    assert stages_run(go("--stage", "two")) == []


def test_a_broken_stage_starts_over(go):
    broken = go(BREAK="1")
    assert broken.returncode == 1
    assert "made-up: error: stage two ended with exit code 1" in broken.stderr
    assert stages_run(go()) == ["two", "three"]


def test_a_rerun_makes_the_later_stages_old_even_when_it_breaks(go):
    go()
    assert go("--size", 6, BREAK="1").returncode == 1
    assert stages_run(go()) == ["two", "three"]


def test_a_stage_by_content_runs_when_its_input_changed(recipe, go, tmp_path):
    recipe.write_text(BY_CONTENT.format(root=ROOT))
    data = tmp_path / "data"
    data.mkdir()
    (data / "input").write_text("one plus")
    assert stages_run(go("--data", data)) == ["one", "two", "three"]
    # Stage one has to run again, but what it hands on is the same.
    (data / "input").write_text("one minus")
    done = go("--data", data)
    assert done.returncode == 0, done.stderr
    assert stages_run(done) == ["one"]
    (data / "input").write_text("two minus")
    assert stages_run(go("--data", data)) == ["one", "two", "three"]
    # A change that leaves size and time as they were is noticed all the same.
    state = (data / "input").stat()
    (data / "input").write_text("six minus")
    os.utime(data / "input", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert stages_run(go("--data", data)) == ["one", "two", "three"]
    assert stages_run(go("--data", data)) == []


def test_a_broken_cache_of_sums_is_made_anew(recipe, go, tmp_path):
    recipe.write_text(BY_CONTENT.format(root=ROOT))
    (tmp_path / "input").write_text("one")
    assert stages_run(go("--data", tmp_path)) == ["one", "two", "three"]
    (tmp_path / "my work" / ".stages" / "digests.json").write_text("{")
    assert stages_run(go("--data", tmp_path)) == []


def test_stage_and_stop_stage_by_name_and_number(go):
    assert stages_run(go("--stop-stage", "two")) == ["one", "two"]
    assert stages_run(go("--stage", 3, "--stop-stage", "three")) == ["three"]


def test_an_earlier_stage_must_be_done(go):
    assert_one_line_error(go("--stage", "two"), "earlier stage one is not done", "--stage one")


def test_dry_run_prints_and_writes_nothing(go, tmp_path):
    done = go("--dry-run")
    assert done.returncode == 0
    assert "+ touch" in done.stderr and "my\\ work/two/5" in done.stderr
    assert "2>&1 | tee -a" in done.stderr
    assert not (tmp_path / "my work").exists()


def test_relative_folders_are_those_of_the_caller(recipe, tmp_path):
    done = run_bash(recipe, "--cpu", "--work", "here", cwd=tmp_path)
    assert done.returncode == 0 and (tmp_path / "here" / "one").read_text() == "one\n"


def test_two_runs_in_one_folder(go, tmp_path):
    import fcntl

    (tmp_path / "my work").mkdir()
    with open(tmp_path / "my work" / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert_one_line_error(go(), "another run is at work there")


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (["--nonsense", "1"], ["--nonsense", "--help"]),
        (["--size"], ["--size: needs a value"]),
        (["--size", "x"], ["--size x: must be a whole number"]),
        (["--size", "0"], ["--size 0: must be"]),
        (["--top-size", "0"], ["--top-size 0: must be"]),
        (["--top_size", "7"], ["--top_size: no option"]),
        (["loose"], ["loose: no option"]),
        (["--stage", "four"], ["--stage four: no such stage", "one two three"]),
        (["--stage", "3", "--stop-stage", "1"], ["--stop-stage one lies before --stage three"]),
        (["--scale", "huge"], ["--scale huge: must be tiny or full"]),
        (["--data", "/no/such"], ["--data /no/such: no such folder"]),
        (["--gpus", "0"], ["--gpus 0"]),
        (["--gpus", "99"], ["--gpus 99: this machine shows"]),
    ],
)
def test_mistaken_options(go, args, parts):
    assert_one_line_error(go(*args), *parts)
