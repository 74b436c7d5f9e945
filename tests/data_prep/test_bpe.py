"""bpe.py against subword-nmt's own commands, byte for byte, also where its counts aren't exact."""

import codecs
import functools
import io
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subword_nmt import learn_bpe
from subword_nmt.apply_bpe import BPE

from tests.support.scripts import assert_one_line_error, run_script
from vaswani_plugin.errors import UserError
from vaswani_plugin.text import bpe, parallel


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
    odd = [" \u00a0 ", "abc\u00a0abc \u3000 c", " x\u2003y", "a\u00a0b c  d", "w" * 3000, *lines]
    (folder / "odd.de").write_text("".join(f"{x}\n" for x in odd), "utf-8")
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
    done = subprocess.run([program, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_codes_equal_those_of_subword_nmt(corpus, codes, tmp_path):
    subword_nmt(
        "learn-joint-bpe-and-vocab", "-s", 200, "-o", tmp_path / "theirs",
        "--input", corpus / "train.en", corpus / "train.de",
        "--write-vocabulary", tmp_path / "v1", tmp_path / "v2",
    )  # fmt: skip
    assert codes.read_bytes() == (tmp_path / "theirs").read_bytes()
    assert codes.read_bytes().count(b"\n") == 201


@pytest.mark.parametrize("name", ["train.en", "train.de", "odd.de"])
@pytest.mark.parametrize("workers", [1, 2])
def test_applying_equals_subword_nmt(corpus, codes, tmp_path, name, workers):
    source = corpus / name
    subword_nmt("apply-bpe", "-c", codes, "-i", source, "-o", tmp_path / "theirs")
    done = run_script(
        "data-prep/bpe.py", "apply", "--codes", codes, "--input", source,
        "--output", tmp_path / "ours", "--workers", workers,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert b"@@ " in (tmp_path / "ours").read_bytes()


@pytest.fixture(scope="module")
def vocabulary(corpus, codes) -> dict[str, Path]:
    """Each language's vocabulary, by subword-nmt."""
    paths = {}
    for language in ("en", "de"):
        units, paths[language] = corpus / f"units.{language}", corpus / f"vocabulary.{language}"
        subword_nmt("apply-bpe", "-c", codes, "-i", corpus / f"train.{language}", "-o", units)
        subword_nmt("get-vocab", "-i", units, "-o", paths[language])
    return paths


@pytest.mark.parametrize("language", ["en", "de"])
def test_vocabulary_equals_that_of_subword_nmt(corpus, vocabulary, tmp_path, language):
    done = run_script(
        "data-prep/bpe.py", "vocabulary",
        "--input", corpus / f"units.{language}", "--output", tmp_path / "ours",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ours").read_bytes() == vocabulary[language].read_bytes()


@pytest.mark.parametrize("threshold", [1, 60])
def test_applying_with_a_vocabulary_equals_subword_nmt(
    corpus, codes, vocabulary, tmp_path, threshold
):
    source = corpus / "train.de"
    # Codes of both languages, units of one: some of them have to be split up again.
    options = ("--codes", codes, "--input", source, "--vocabulary", vocabulary["en"])
    options += ("--vocabulary-threshold", threshold)
    subword_nmt("apply-bpe", *options, "--output", tmp_path / "theirs")
    done = run_script("data-prep/bpe.py", "apply", *options, "--output", tmp_path / "ours")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert (tmp_path / "ours").read_bytes() != (corpus / "units.de").read_bytes()


def test_counting_in_parallel(corpus, monkeypatch):
    monkeypatch.setattr(bpe, "_COUNTED_BYTES", 1000)
    path = str(corpus / "odd.de")
    counted = bpe.count_words([path], workers=2)
    assert list(counted.items()) == list(bpe.count_words([path]).items())
    with codecs.open(path, encoding="utf-8") as stream:
        expected = Counter(w for line in stream for w in line.strip("\r\n ").split(" ") if w)
    assert counted == expected


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("abcdef \u0085\u2028\x0b\t\u00a0\u00e9\0\U0001f600</w>")))
def test_any_line_is_encoded_as_by_subword_nmt(codes, line):
    theirs = BPE(io.StringIO(codes.read_text("utf-8")))
    assert encoder(codes)(line) == theirs.process_line(line)


@functools.cache
def encoder(codes: Path):
    """Our function; kept, so that its memory of words fills as in use."""
    return bpe.make_encoder(str(codes))


def test_dropout(corpus, codes, tmp_path, monkeypatch):
    text = (corpus / "train.de").read_text("utf-8").split("\n")
    kept = [line for line in text if line and line.isprintable()] * 10
    (corpus / "long.de").write_text("\n".join(kept), "utf-8")
    read = parallel.read_blocks
    monkeypatch.setattr(parallel, "read_blocks", lambda path, size=0: read(path, 50_000))

    def dropped(**options: object) -> list[str]:
        bpe.apply(str(codes), str(corpus / "long.de"), str(tmp_path / "out"), **options)
        return (tmp_path / "out").read_text("utf-8").removesuffix("\n").split("\n")

    assert len(list(parallel.read_blocks(str(corpus / "long.de")))) > 1
    first = dropped(dropout=0.3, workers=1)
    assert dropped(dropout=0.3, workers=3) == first
    assert dropped(dropout=0.3, workers=2, seed=2) != first
    assert [line.replace("@@ ", "").split() for line in first] == [line.split() for line in kept]
    # As many units as subword-nmt gives with the same probability, whatever it draws.
    theirs = BPE(io.StringIO(codes.read_text("utf-8")))
    expected = sum(len(theirs.segment(line, 0.3).split()) for line in kept[:2000])
    units = sum(len(line.split()) for line in first[:2000])
    assert units == pytest.approx(expected, rel=0.02)
    # Each occurrence of a line is split anew.
    assert len({first[i] for i in range(0, len(kept), len(kept) // 10)}) > 5


def test_no_merge_is_left_by_full_dropout(corpus, codes):
    done = run_script(
        "data-prep/bpe.py", "apply", "--codes", codes, "--dropout", 1, stdin=b"abab cde\n"
    )
    assert done.stdout == "a@@ b@@ a@@ b c@@ d@@ e\n"


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (("--dropout", 1.5), "--dropout 1.5"),
        (("--vocabulary-threshold", 5), "needs --vocabulary"),
        (("--workers", 0), "--workers 0"),
        (("--vocabulary", "{codes}"), "codes:1: a line of a vocabulary"),
    ],
)
def test_mistakes_on_the_command_line(codes, flags, part):
    flags = [str(flag).format(codes=codes) for flag in flags]
    done = run_script("data-prep/bpe.py", "apply", "--codes", codes, *flags, stdin=b"a\n")
    assert_one_line_error(done, part)


def test_removing_the_separator_gives_the_text_back(corpus, codes):
    text = (corpus / "train.de").read_bytes()
    done = run_script("data-prep/bpe.py", "apply", "--codes", codes, stdin=text)
    assert done.stdout.replace("@@ ", "").split() == text.decode().split()


@pytest.mark.parametrize(
    ("content", "part"),
    [("a b\n", "not BPE codes"), ("#version: 0.2\na b\na b c\n", "codes:3: a line of BPE codes")],
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


@pytest.mark.parametrize("version", ["0.1", "0.2"])
def test_any_table_is_applied_as_by_subword_nmt(tmp_path, version):
    """Merges in any order, pairs that are there twice, units that several merges make."""
    rng = random.Random(1)
    for _ in range(200):
        letters = rng.choice(["ab", "abc"])
        units = [*letters, *(f"{letter}</w>" for letter in letters)]
        lines = []
        for _ in range(rng.randint(1, 12)):
            pair = rng.choice([u for u in units if not u.endswith("</w>")]), rng.choice(units)
            lines.append(" ".join(pair))
            units.append("".join(pair))
        lines.append(rng.choice(lines))
        table = f"#version: {version}\n" + "\n".join(lines) + "\n"
        (tmp_path / "codes").write_text(table)
        ours, theirs = bpe.make_encoder(str(tmp_path / "codes")), BPE(io.StringIO(table))
        text = " ".join("".join(rng.choices(letters, k=rng.randint(1, 40))) for _ in range(9))
        assert ours(text) == theirs.segment(text), (table, text)


def test_an_endless_word_takes_no_time(tmp_path):
    table = "#version: 0.2\n" + "\n".join(f"{'a' * 2**n} {'a' * 2**n}" for n in range(16)) + "\n"
    (tmp_path / "codes").write_text(table)
    start = time.process_time()
    units = bpe.make_encoder(str(tmp_path / "codes"))("a" * 200_000).split()
    assert time.process_time() - start < 3
    assert "".join(unit.removesuffix("@@") for unit in units) == "a" * 200_000


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.text("abc\u00a0", min_size=1, max_size=9), st.integers(1, 30), min_size=2),
    st.integers(1, 3),
)
def test_merges_of_any_counts_are_those_of_subword_nmt(counts, least):
    """Also with U+00A0 in words, which subword-nmt takes for white space in a merge."""
    if all(len(word) == 1 for word in counts):
        return
    text = "".join(f"{word} {count}\n" for word, count in counts.items())
    theirs = io.StringIO()
    learn_bpe.learn_bpe(io.StringIO(text), theirs, 40, least, is_dict=True)
    expected = theirs.getvalue().split("\n")[1:-1]
    assert [" ".join(pair) for pair in bpe.learn_merges(counts, 40, least)] == expected


@pytest.mark.parametrize("version", ["0.3", "nan", "", "0.2 x"])
def test_codes_of_another_version(tmp_path, version):
    (tmp_path / "codes").write_text(f"#version: {version}\na b\n")
    with pytest.raises(UserError, match="not BPE codes"):
        bpe.read_merges(str(tmp_path / "codes"))


def test_nothing_to_merge_is_said_and_leaves_no_codes(tmp_path):
    (tmp_path / "text").write_text("ab cd\n")
    (tmp_path / "letters").write_text("a b c\na b\n")
    messages = {"text": "comes 2 times.*--min-frequency", "letters": "has one letter"}
    for name, message in messages.items():
        with pytest.raises(UserError, match=message):
            bpe.learn([str(tmp_path / name)], 10, 2, str(tmp_path / "codes"))
    assert not (tmp_path / "codes").exists()
    (tmp_path / "codes").write_text("#version: 0.2\n")
    with pytest.raises(UserError, match="no merge in it"):
        bpe.read_merges(str(tmp_path / "codes"))


def test_a_count_of_many_digits_is_no_frequency(tmp_path):
    (tmp_path / "vocabulary").write_text(f"a {'9' * 5000}\n")
    with pytest.raises(UserError, match="vocabulary:1: "):
        bpe.read_vocabulary(str(tmp_path / "vocabulary"), 1)
