"""Phrases that we do not write: none stands in the project, and the script finds those that do."""

import pytest
from scripts import run_script

SCRIPT = "recipes/lib/plain_english.py"


def test_the_project_is_free_of_them():
    done = run_script(SCRIPT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("text", "line", "phrase"),
    [
        ("a\nIt lets go of the beam.\n", 2, "lets go of"),  # plain-english: off
        ("# In order to\n# win.\n", 1, "In order to"),  # plain-english: off
        ("# what is\n# left of it\n", 1, "what is left of"),  # plain-english: off
    ],
)
def test_a_phrase_is_found_even_across_lines(tmp_path, text, line, phrase):
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    done = run_script(SCRIPT, path)
    assert done.returncode == 1
    assert done.stdout.startswith(f"{path}:{line}: {phrase!r}")
    assert done.stdout.count("\n") == 1


def test_a_marked_line_is_an_example(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("not: in order to (plain-english: off)\nto\n", encoding="utf-8")
    assert run_script(SCRIPT, path).returncode == 0
