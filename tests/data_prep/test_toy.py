"""data-prep/toy: no sentence of validation or test occurs in training, on either side."""

import pytest
from toy_text import FOLDER, toy_lines

PAIRS = [path.name for path in sorted(FOLDER.glob("en-*"))]


@pytest.mark.parametrize("pair", PAIRS)
def test_held_out_text_is_new(pair):
    for language in pair.split("-"):
        splits = [toy_lines(f"{pair}/{split}.{language}") for split in ("train", "valid", "test")]
        everything = [line for lines in splits for line in lines]
        assert len(set(everything)) == len(everything) > 500
