"""recipes/lib/report_table.py: a command's findings as the table that the command prints."""

from pathlib import Path

from tests.conftest import run_module
from tests.support.scripts import assert_one_line_error, run_script

SCRIPT = "recipes/lib/report_table.py"


def test_the_table_is_the_commands(tmp_path: Path) -> None:
    written, wanted, found = (tmp_path / name for name in ("written", "wanted", "rouge.json"))
    written.write_text("a cat sat\n")
    wanted.write_text("the cat sat\n")
    command = ("vaswani_plugin.cli", "rouge", "--hypothesis", written, "--references", wanted)
    found.write_text(run_module(*command, "--format", "json").stdout)
    done = run_script(SCRIPT, "rouge", found)
    assert done.returncode == 0, done.stderr
    assert done.stdout == run_module(*command).stdout
    assert "ROUGE-1" in done.stdout


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    found = tmp_path / "rouge.json"
    found.write_text('{"rouge": ')
    done = run_script(SCRIPT, "rouge", found)
    assert_one_line_error(done, f"{found}: not JSON", "run the recipe again")


def test_another_file_is_named(tmp_path: Path) -> None:
    found = tmp_path / "perplexity.json"
    found.write_text('{"rouge": []}')
    for kind in ("lm", "rouge", "f1"):
        done = run_script(SCRIPT, kind, found)
        assert_one_line_error(done, f"{found}: no report of this kind", "run the recipe again")
