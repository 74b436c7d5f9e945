"""data-prep/toy: parallel, distinct, and nothing held out occurs in the training text."""

import pytest
from toy_text import FOLDER, toy_lines

SIDES = [path.name for path in sorted(FOLDER.glob("en-*"))]


@pytest.mark.parametrize("pair", SIDES)
def test_sides_are_parallel_and_held_out_text_is_new(pair):
    splits = ("train", "valid", "test")
    for language in pair.split("-"):
        lines = {split: toy_lines(f"{pair}/{split}.{language}") for split in splits}
        everything = [line for split in splits for line in lines[split]]
        assert len(set(everything)) == len(everything)
        assert all(line == line.strip() for line in everything)
        other = pair.replace(language, "").strip("-")
        for split in splits:
            assert len(lines[split]) == len(toy_lines(f"{pair}/{split}.{other}"))


def test_sizes():
    """Those of the quickstart, whose published scores depend on them."""
    assert [len(toy_lines(f"en-de/{s}.de")) for s in ("train", "valid", "test")] == [6000, 300, 500]


def test_trees_are_distinct():
    trees = [
        tree for split in ("train", "valid", "test") for tree in toy_lines(f"trees/{split}.trees")
    ]
    assert len(set(trees)) == len(trees) == 2300
