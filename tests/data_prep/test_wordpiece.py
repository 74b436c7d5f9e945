"""Word pieces: every text comes back, whatever its characters; equal input gives equal models."""

import gzip
import math
import random
import re
from collections import Counter
from pathlib import Path
from unicodedata import normalize

import pytest
from fairseq.data import Dictionary
from fairseq.tokenizer import tokenize_line
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from tests.conftest import REPO
from tests.support.commands import run_python
from tests.support.scripts import assert_one_line_error
from vaswani_plugin.errors import UserError
from vaswani_plugin.text import wordpiece, wordpiece_learning
from vaswani_plugin.text.raw_text import canonical
from vaswani_plugin.text.wordpiece_learning import LONGEST_PIECE, merge_pair, merges_by_likelihood

SCRIPT = "data-prep/wordpiece.py"
SPECIAL = ["<s>", "</s>", "<unk>", "<pad>", "<0x41>", "<0x0A>"]
# Blanks, and what ends a line for some program: one blank.
BLANKS = " \t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029"


def run_script(*arguments: object, stdin: bytes = b""):
    """In a new Python: sentencepiece's threads crash in a fork of a process that ran an engine."""
    return run_python(
        REPO / SCRIPT, *arguments, input=stdin.decode(), capture_output=True, encoding="utf-8"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """`train.en`, `train.fr`, made-up words with special pieces' names in them, and `m.model`."""
    folder = tmp_path_factory.mktemp("wordpiece")
    rng = random.Random(5)
    for language, letters in (("en", "abcdefghij"), ("fr", "abcdefgéàœç’")):
        words = ["".join(rng.choices(letters, k=rng.randint(1, 9))) for _ in range(300)]
        words += [f"{word}{name}{word}" for word in ("x", "be") for name in SPECIAL]
        weights = [1 / (i + 1) for i in range(300)] + [0.02] * 2 * len(SPECIAL)
        lines = [" ".join(rng.choices(words, weights, k=rng.randint(1, 12))) for _ in range(600)]
        lines[5], lines[6], lines[7] = "", "  two\u0085spaces ", "tab\tinside\x01"
        (folder / f"train.{language}").write_text("".join(f"{x}\n" for x in lines), "utf-8")
    done = learn(folder, folder / "m")
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def learn(folder: Path, output: Path, *options: object):
    """Runs the script's `learn` on both languages."""
    inputs = (folder / "train.en", folder / "train.fr")
    return run_script("learn", "--size", 600, "--output", output, *options, "--input", *inputs)


@pytest.fixture(scope="module")
def encode(folder):
    return wordpiece.make_encoder(folder / "m.model")


@pytest.fixture(scope="module")
def decode(folder):
    return wordpiece.make_decoder(folder / "m.model")


@pytest.fixture(scope="module")
def dictionary(folder) -> Dictionary:
    """fairseq's dictionary as the script writes it."""
    arguments = ("--model", folder / "m.model", "--output", folder / "dict.txt")
    done = run_script("dictionary", *arguments)
    assert done.returncode == 0, done.stderr
    return Dictionary.load(str(folder / "dict.txt"))


def expected_of(text: str) -> str:
    """What must come back: all but invisible characters, in form NFC, blanks as one blank."""
    return re.sub(f"[{BLANKS}]+", " ", canonical(text)).strip(" ")


@settings(max_examples=500, deadline=None)
@given(st.text())
@example("a\x00b")
@example("<s> </s> <unk> <pad> x<s>y</s>z<unk>w<pad>v<0x41> <0x0A> madeupword0000")
@example("a\u0085b\x1cc\u2028d\te\u3000f\xa0g\u1680h\rj")
@example("\u2581 a\u2581b \u2585 \u2047 \ufffd \ufeff\u200b")
@example(
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01 10\u2076 \u00bd 1\u00ba \ufb01 \u2167 \uff76 e\u0301"
)
@example("\u00ab\u00a0Oui\u202f!\u00a0\u00bb \u0645\u06cc\u200c\u062e \u0915\u094d\u200d\u0937")
@example("\U0001f468\u200d\U0001f469\u200d\U0001f467")
@example("\U0001f600\U0010ffff\ue000 \u0301e\u0301 \xa8 \ufdfa")
def test_any_text_comes_back(encode, decode, dictionary, text):
    line = encode(text)
    pieces = line.split(" ") if line else []
    assert tokenize_line(line) == pieces, "fairseq sees other pieces"
    ids = dictionary.encode_line(line, add_if_not_exist=False, append_eos=False).tolist()
    assert all(index >= dictionary.nspecial for index in ids), "a special symbol or <unk>"
    assert "\n" not in line and "\r" not in line
    assert decode(line) == expected_of(text)
    assert encode(normalize("NFD", text)) == encode(normalize("NFC", text)), "equivalent texts"


def test_a_model_learned_earlier_keeps_its_rule(folder, tmp_path):
    """`nmt_nfkc`, the rule of every model before this one."""
    SentencePieceTrainer.train(
        input=str(folder / "train.fr"), model_prefix=str(tmp_path / "old"), vocab_size=400,
        normalization_rule_name="nmt_nfkc", byte_fallback=True, minloglevel=2,
    )  # fmt: skip
    model = tmp_path / "old.model"
    encode, decode = wordpiece.make_encoder(model), wordpiece.make_decoder(model)
    library = SentencePieceProcessor(model_file=str(model))
    for text in ("a\uff0cb 10\u2076 \u00bd", "be\u200bbe\ufeff a\u00a0b\u2581c", "x\u0085y"):
        spaces = " ".join(text.split())
        assert encode(text) == " ".join(library.encode(spaces, out_type=str))
        assert decode(encode(text)) == library.normalize(spaces).replace("\u2581", " ").strip()


def test_two_processes_learn_the_same_bytes(folder, dictionary, tmp_path):
    for name in ("one", "two.model"):
        done = learn(folder, tmp_path / name, "--sample", 500)
        assert done.returncode == 0, done.stderr
        assert "600 pieces, unigram: " in done.stdout
    assert len(dictionary) == 600  # fairseq's four special symbols for the model's
    assert (tmp_path / "one.model").read_bytes() == (tmp_path / "two.model").read_bytes()
    assert sorted(x.name for x in tmp_path.iterdir()) == ["one.model", "two.model"]


@pytest.mark.parametrize("kind, first", [("bpe", "\u2581e"), ("likelihood", "qu")])
def test_the_first_merge_is_the_kinds(tmp_path, kind, first):
    """BPE merges the most frequent pair; by likelihood, q and u, which never occur apart."""
    (tmp_path / "text").write_text("que\n" * 10 + "es\n" * 12 + "s\n" * 40 + "e\n" * 40)
    learned = wordpiece_learning.learn([str(tmp_path / "text")], 268, kind)
    (tmp_path / "x.model").write_bytes(learned)
    assert wordpiece.load(tmp_path / "x.model").id_to_piece(4 + 256) == first


def test_apply_and_undo_keep_the_lines(folder, encode, tmp_path):
    odd = ["", " ", "a\x1bb", "one\u0085two\u2028three\x0b\x0c\x1c", "<s> </s>", "\u2581", "é😀"]
    content = (folder / "train.fr").read_text("utf-8") + "".join(f"{x}\n" for x in odd)
    (tmp_path / "in.gz").write_bytes(gzip.compress(content.encode()))
    for command, source, output in (("apply", "in.gz", "pieces"), ("undo", "pieces", "out")):
        done = run_script(
            command, "--model", folder / "m.model", "--workers", 2,
            "--input", tmp_path / source, "--output", tmp_path / output,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    lines = content.removesuffix("\n").split("\n")
    assert (tmp_path / "pieces").read_bytes() == "".join(f"{encode(x)}\n" for x in lines).encode()
    undone = (tmp_path / "out").read_bytes().decode().removesuffix("\n").split("\n")
    assert undone == [expected_of(line) for line in lines]


def test_undo_takes_whatever_a_model_writes(decode):
    assert decode("") == ""
    assert decode("\u2581a <0x0A> <0x00> \u2581b <0x1B> <0xC2> <0x85> c") == "a b c"
    assert decode("<0xE6> \u2581b") == "\ufffd b"
    assert decode("<s> \u2581unknown-word </s>").strip() == "unknown-word"


def test_what_is_no_model_is_refused(folder, tmp_path):
    content = (folder / "m.model").read_bytes()
    for damage in (b"", b"no model\n", content[:-9]):
        (tmp_path / "bad.model").write_bytes(damage)
        with pytest.raises(UserError, match="bad.model: not a sentencepiece model"):
            wordpiece.make_encoder(tmp_path / "bad.model")("b\u00e9c\u00e9")


@pytest.mark.parametrize(
    ("content", "size", "part"),
    [
        (b"words words\n", 32000, "--size 32000: too many for this text, which gives"),
        (b"words words\n", 100, "--size 100: too few"),
        (b"words\nb\xffad\n", 600, ":2: invalid UTF-8"),
        (b"\n \n", 600, "text: the file holds no words"),
    ],
)
def test_what_gives_no_model(tmp_path, content, size, part):
    (tmp_path / "text").write_bytes(content)
    (tmp_path / "m.model").write_bytes(b"old")
    flags = ("--input", tmp_path / "text", "--output", tmp_path / "m", "--size", size)
    assert_one_line_error(run_script("learn", *flags), part)
    assert (tmp_path / "m.model").read_bytes() == b"old"
    assert {x.name for x in tmp_path.iterdir()} == {"m.model", "text"}


def test_a_long_line_is_learned_from(tmp_path):
    """By default sentencepiece skips lines of more than 4,192 bytes."""
    (tmp_path / "text").write_text("ab " * 30 + "\n" + "xyz " * 2000 + "\n")
    learned = wordpiece_learning.learn([str(tmp_path / "text")], 300, "unigram", at_most=True)
    (tmp_path / "m").write_bytes(learned)
    pieces = wordpiece.make_encoder(tmp_path / "m")("xyz xyz").split()
    assert len(pieces) < 8 and not any(piece.startswith("<0x") for piece in pieces)


def test_the_rarest_of_many_letters_become_bytes(tmp_path):
    letters = "".join(map(chr, range(0x4E00, 0x4E00 + 500)))
    (tmp_path / "text").write_text("".join(f"{letters[: 500 // n]}\n" for n in range(1, 500)))
    (tmp_path / "m").write_bytes(wordpiece_learning.learn([str(tmp_path / "text")], 360, "bpe"))
    model = wordpiece.load(tmp_path / "m")
    assert sum(len(model.id_to_piece(n)) == 1 for n in range(260, 360)) == 51  # and U+2581
    line = wordpiece.make_encoder(tmp_path / "m")(letters)
    assert "<0xE4>" in line and wordpiece.make_decoder(tmp_path / "m")(line) == letters


# Word pieces as published, by their definition: the likelihood computed anew for every pair.

WORDS = st.dictionaries(
    st.text("abc", min_size=1, max_size=6).map(tuple), st.integers(1, 9), min_size=1, max_size=8
)


def log_likelihood(words: list[tuple[list[str], int]]) -> float:
    """Of all pieces under their own relative frequencies."""
    counts = Counter()
    for pieces, frequency in words:
        for piece in pieces:
            counts[piece] += frequency
    total = sum(counts.values())
    return sum(count * math.log(count / total) for count in counts.values())


def merged(words: list[tuple[list[str], int]], pair: tuple[str, str]) -> list:
    return [(merge_pair(pieces, pair), frequency) for pieces, frequency in words]


def pairs_of(words: list[tuple[list[str], int]]) -> set[tuple[str, str]]:
    return {pair for pieces, _ in words for pair in zip(pieces, pieces[1:], strict=False)}


@given(WORDS)
def test_each_merge_raises_the_likelihood_most(words):
    state, made = [(list(word), count) for word, count in words.items()], set()
    for pair in merges_by_likelihood(words, 5):
        before = log_likelihood(state)
        gains = {
            other: log_likelihood(merged(state, other)) - before
            for other in pairs_of(state)
            if "".join(other) not in made
        }
        assert gains[pair] == pytest.approx(max(gains.values()), abs=1e-9)
        assert gains[pair] > 0
        state = merged(state, pair)
        made.add("".join(pair))
    left = {p for p in pairs_of(state) if "".join(p) not in made}
    if len(made) < 5:  # it stopped, because nothing is gained any more
        before = log_likelihood(state)
        assert all(log_likelihood(merged(state, p)) - before <= 1e-9 for p in left)


def test_pieces_end_where_they_must():
    words = {tuple("x" * 40): 3, ("a", "", "b"): 9}
    pieces = {"".join(pair) for pair in merges_by_likelihood(words, 50)}
    assert pieces and max(map(len, pieces)) <= LONGEST_PIECE
    assert not any("a" in piece or "b" in piece for piece in pieces)
    assert "xx" not in {"".join(pair) for pair in merges_by_likelihood(words, 50, taken={"xx"})}
