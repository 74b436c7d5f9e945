"""bpe.py against subword-nmt's own commands, byte for byte, also where its counts aren't exact."""

import functools
import io
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subword_nmt import learn_bpe
from subword_nmt.apply_bpe import BPE

from tests.conftest import REPO
from tests.support.scripts import assert_one_line_error, run_script
from vaswani_plugin.text import bpe, bpe_learning


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """Two languages of made-up words with a Zipf-like distribution; odd lines among them."""
    folder = tmp_path_factory.mktemp("bpe")
    rng = random.Random(3)
    for language, letters in (("en", "abcdefghij"), ("de", "abcdeföäßü\U0001f600")):
        words = ["".join(rng.choices(letters, k=rng.randint(1, 9))) for _ in range(300)]
        weights = [1 / (i + 1) for i in range(300)]
        lines = [" ".join(rng.choices(words, weights, k=rng.randint(1, 12))) for _ in range(400)]
        lines[5], lines[6], lines[7] = "", "  two  spaces ", "tab\tinside\u00a0" * 9
        text = "".join(f"{x}\n" for x in lines)
        (folder / f"train.{language}").write_text(text, "utf-8")
        (folder / f"nfd.{language}").write_text(text.replace("ö", "o\u0308"), "utf-8")
    odd = [" \u00a0 ", "abc\u00a0abc \u3000 c", " x\u2003y", "a\u00a0b c  d", "w" * 3000, *lines]
    (folder / "odd.de").write_text("".join(f"{x}\n" for x in odd), "utf-8")
    return folder


@pytest.fixture(scope="module")
def codes(corpus) -> Path:
    """Codes that our script learnt."""
    flags = ("--operations", 200, "--output", corpus / "codes", "--input", corpus / "nfd.en")
    done = run_script("data-prep/bpe.py", "learn", *flags, corpus / "nfd.de")
    assert done.returncode == 0, done.stderr
    return corpus / "codes"


def subword_nmt(*args: object) -> None:
    """Runs subword-nmt's own command."""
    program = Path(sys.executable).parent / "subword-nmt"
    done = subprocess.run([program, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_codes_equal_those_of_subword_nmt(corpus, codes, tmp_path):
    files = ("--input", corpus / "train.en", corpus / "train.de", "-o", tmp_path / "theirs")
    also = ("--write-vocabulary", tmp_path / "v1", tmp_path / "v2")
    subword_nmt("learn-joint-bpe-and-vocab", "-s", 200, *files, *also)
    assert codes.read_bytes() == (tmp_path / "theirs").read_bytes()
    assert codes.read_bytes().count(b"\n") == 201


@pytest.fixture(scope="module")
def vocabulary(corpus, codes) -> Path:
    """Vocabulary of English, by subword-nmt."""
    subword_nmt("apply-bpe", "-c", codes, "-i", corpus / "train.en", "-o", corpus / "units.en")
    subword_nmt("get-vocab", "-i", corpus / "units.en", "-o", corpus / "vocabulary.en")
    return corpus / "vocabulary.en"


def test_applying_equals_subword_nmt(corpus, codes, vocabulary, tmp_path):
    """Codes of both languages, units of one: some of them have to be split up again."""
    limit = ("--vocabulary", vocabulary, "--vocabulary-threshold", 60)
    results = []
    for source, more in (("odd.de", ()), ("train.de", ()), ("train.de", limit)):
        options = ("--codes", codes, *more, "--input")
        subword_nmt("apply-bpe", *options, corpus / source, "--output", tmp_path / "theirs")
        options += (corpus / source.replace("train", "nfd"), "--workers", 1 if more else 2)
        done = run_script("data-prep/bpe.py", "apply", *options, "--output", tmp_path / "ours")
        assert done.returncode == 0, done.stderr
        results.append((tmp_path / "ours").read_bytes())
        assert results[-1] == (tmp_path / "theirs").read_bytes()
    assert b"@@ " in results[0] and results[1] != results[2]


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("abcdef \u0085\u2028\x0b\t\u00a0\u00e9\0\U0001f600</w>")))
def test_any_line_is_encoded_as_by_subword_nmt(codes, line):
    assert encoder(codes)(line) == BPE(io.StringIO(codes.read_text("utf-8"))).process_line(line)


@functools.cache
def encoder(codes: Path):
    """Our function; kept, so that its memory of words fills as in use."""
    return bpe.make_encoder(str(codes))


@pytest.mark.parametrize(
    ("content", "flags", "part"),
    [
        ("#version: 0.2\na b\n", ("--vocabulary-threshold", 5), "needs --vocabulary"),
        ("#version: 0.2\na b\n", ("--vocabulary", "codes"), "codes: no lines of a unit"),
        ("a b\n", (), "not BPE codes"),
        ("#version: 0.2\na b\na b c\n", (), "codes:3: a line of BPE codes"),
    ],
)
def test_mistakes_on_the_command_line(tmp_path, content, flags, part):
    (tmp_path / "codes").write_text(content)
    command = ("data-prep/bpe.py", "apply", "--codes", "codes", *flags)
    assert_one_line_error(run_script(*command, stdin=b"a\n", cwd=tmp_path), part)


def test_any_table_is_applied_as_by_subword_nmt(tmp_path):
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
        table = "#version: 0.2\n" + "\n".join(lines) + "\n"
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
    assert [" ".join(pair) for pair in bpe_learning.learn_merges(counts, 40, least)] == expected


@pytest.mark.parametrize(
    ("script", "flags"),
    [
        ("bpe.py", "learn --operations 20 --input train.en --output"),
        ("wordpiece.py", "learn --at-most --size 300 --input train.en --output"),
        ("check_corpus.py", "train.en train.de --max-ratio inf --clean out"),
    ],
)
def test_on_standard_output_is_nothing_but_the_output(corpus, script, flags):
    """What is said to people goes elsewhere."""
    command = [sys.executable, REPO / "data-prep" / script, *flags.split()]
    into = [
        subprocess.run([*command, where], cwd=corpus, capture_output=True, check=True)
        for where in ("-", "to.model")
    ]
    assert into[0].stdout == (corpus / "to.model").read_bytes() != b""
    assert into[0].stderr and into[1].stdout
