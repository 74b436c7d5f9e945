"""docs/reference/fairseq-patches.md is what its script makes of the docstrings."""

from scripts import run_script

from tests.conftest import REPO
from vaswani_plugin.fairseq_plugin.patches import PATCHES


def test_the_page_is_current():
    made = run_script("docs/fairseq_patches_table.py")
    assert made.returncode == 0, made.stderr
    page = (REPO / "docs" / "reference" / "fairseq-patches.md").read_text(encoding="utf-8")
    assert page == made.stdout, "run docs/fairseq_patches_table.py, as it says"
    assert page.count("\n| ") == 1 + len(PATCHES)
