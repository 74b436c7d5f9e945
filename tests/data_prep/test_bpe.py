"""bpe.py against subword-nmt's own commands, byte for byte."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scripts import assert_one_line_error, run_script


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """Two languages of made-up words with a Zipf-like distribution; odd lines among them."""
    folder = tmp_path_factory.mktemp("bpe")
    rng = random.Random(3)
    for language, letters in (("en", "abcdefghij"), ("de", "abcdeföäßü\U0001f600")):
        words = ["".join(rng.choices(letters, k=rng.randint(1, 9))) for _ in range(300)]
        weights = [1 / (i + 1) for i in range(300)]
        lines = [" ".join(rng.choices(words, weights, k=rng.randint(1, 12))) for _ in range(400)]
        lines[5], lines[6], lines[7] = "", "  two  spaces ", "tab\tinside"
        (folder / f"train.{language}").write_text("".join(f"{x}\n" for x in lines), "utf-8")
    return folder


@pytest.fixture(scope="module")
def codes(corpus) -> Path:
    """Codes that our script learnt."""
    done = run_script(
        "data-prep/bpe.py", "learn", "--operations", 200, "--output", corpus / "codes",
        "--input", corpus / "train.en", corpus / "train.de",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return corpus / "codes"


def subword_nmt(*args: object) -> None:
    """Runs subword-nmt's own command."""
    program = Path(sys.executable).parent / "subword-nmt"
    subprocess.run([program, *map(str, args)], check=True, capture_output=True)


def test_codes_equal_those_of_subword_nmt(corpus, codes, tmp_path):
    subword_nmt(
        "learn-joint-bpe-and-vocab", "-s", 200, "-o", tmp_path / "theirs",
        "--input", corpus / "train.en", corpus / "train.de",
        "--write-vocabulary", tmp_path / "v1", tmp_path / "v2",
    )  # fmt: skip
    assert codes.read_bytes() == (tmp_path / "theirs").read_bytes()
    assert codes.read_bytes().count(b"\n") == 201


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("workers", [1, 2])
def test_applying_equals_subword_nmt(corpus, codes, tmp_path, language, workers):
    source = corpus / f"train.{language}"
    subword_nmt("apply-bpe", "-c", codes, "-i", source, "-o", tmp_path / "theirs")
    done = run_script(
        "data-prep/bpe.py", "apply", "--codes", codes, "--input", source,
        "--output", tmp_path / "ours", "--workers", workers,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert b"@@ " in (tmp_path / "ours").read_bytes()


def test_removing_the_separator_gives_the_text_back(corpus, codes):
    text = (corpus / "train.de").read_bytes()
    done = run_script("data-prep/bpe.py", "apply", "--codes", codes, stdin=text)
    assert done.stdout.replace("@@ ", "").split() == text.decode().split()


@pytest.mark.parametrize(
    ("content", "part"),
    [("a b\n", "no BPE codes"), ("#version: 0.2\na b\na b c\n", "codes:3: a line of BPE codes")],
)
def test_bad_codes(tmp_path, content, part):
    (tmp_path / "codes").write_text(content)
    done = run_script("data-prep/bpe.py", "apply", "--codes", tmp_path / "codes", stdin=b"a\n")
    assert_one_line_error(done, part)


def test_nothing_to_learn_from(tmp_path):
    (tmp_path / "full").write_text("words words\n")
    (tmp_path / "empty").write_text("\n")
    for inputs in (["empty"], ["full", "empty"]):
        done = run_script(
            "data-prep/bpe.py", "learn", "--output", tmp_path / "codes",
            "--input", *(tmp_path / name for name in inputs),
        )  # fmt: skip
        assert_one_line_error(done, "empty: the file holds no words")
        assert not (tmp_path / "codes").exists()
