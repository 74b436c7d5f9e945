"""binarize.py: the sentences come back out of fairseq's binary form; mistakes leave no folder."""

from pathlib import Path

import pytest

from tests.support.scripts import assert_one_line_error, run_script

SENTENCES = {
    "train": (["a b c", "d e", "a a"], ["x y", "z a", "b"]),
    "valid": (["a b"], ["x y z"]),
    "test": (["c unknown"], ["b"]),
}


@pytest.fixture
def text(tmp_path) -> Path:
    """The corpus as text, in a folder with a space in its name."""
    folder = tmp_path / "my text"
    folder.mkdir()
    for split, sides in SENTENCES.items():
        for language, lines in zip(("en", "de"), sides, strict=True):
            (folder / f"{split}.{language}").write_text("".join(f"{x}\n" for x in lines))
    return folder


def binarize(text: Path, *flags: object):
    """Runs the script on the three splits."""
    splits = [part for split in SENTENCES for part in (f"--{split}", text / split)]
    output = text.parent / "data bin"
    return run_script(
        "data-prep/binarize.py", "--pair", "en-de", *splits, "--output", output, *flags
    )


def test_round_trip_through_fairseq(text):
    from fairseq.data import Dictionary, data_utils

    done = binarize(text, "--workers", 1)
    assert done.returncode == 0, done.stderr
    output = text.parent / "data bin"
    assert (output / "dict.en.txt").read_bytes() == (output / "dict.de.txt").read_bytes()
    dictionary = Dictionary.load(str(output / "dict.en.txt"))
    assert f"types {len(dictionary)}" in done.stdout
    assert len(dictionary) % 8 == 0
    for split in ("train", "valid"):
        for language, lines in zip(("en", "de"), SENTENCES[split], strict=True):
            dataset = data_utils.load_indexed_dataset(
                str(output / f"{split}.en-de.{language}"), dictionary
            )
            assert [dictionary.string(tokens) for tokens in dataset] == lines


def test_padding_factor(text):
    from fairseq.data import Dictionary

    assert binarize(text, "--padding-factor", 1, "--workers", 1).returncode == 0
    # a b c d e x y z, and four special symbols
    assert len(Dictionary.load(str(text.parent / "data bin" / "dict.en.txt"))) == 12


def test_a_second_run_replaces_the_first(text):
    assert binarize(text, "--workers", 1).returncode == 0
    stale = text.parent / "data bin" / "stale"
    stale.write_text("")
    assert binarize(text, "--workers", 1).returncode == 0
    assert not stale.exists()


@pytest.mark.parametrize(
    ("spoil", "parts"),
    [
        (lambda text: (text / "valid.de").unlink(), ["--valid", "valid.de does not exist"]),
        (lambda text: (text / "test.en").write_text("a\nb\n"), ["differ in length"]),
        (lambda text: (text / "train.en").write_bytes(b"a\n\xff\nc\n"), ["train.en:2: invalid"]),
    ],
)
def test_mistakes(text, spoil, parts):
    spoil(text)
    assert_one_line_error(binarize(text), *parts)
    assert [path.name for path in text.parent.iterdir()] == ["my text"]


def test_bad_pair(text):
    done = run_script(
        "data-prep/binarize.py", "--pair", "en", "--output", text / "out",
        "--train", "a", "--valid", "b", "--test", "c",
    )  # fmt: skip
    assert_one_line_error(done, "--pair en")
