"""binarize.py: the files are those of fairseq-preprocess; mistakes leave no folder."""

import random
import sys
from pathlib import Path

import binarize as script
import pytest
from fairseq.data import Dictionary

from tests.support.scripts import assert_one_line_error, run_script
from vaswani_plugin.errors import UserError
from vaswani_plugin.files import parallel
from vaswani_plugin.text import binary

SENTENCES = {
    "train": (["a b c", "d e", "a a"], ["x y", "z a", "b"]),
    "valid": (["a b"], ["x y z"]),
    "test": (["c unknown"], ["b"]),
}
BLOCK_BYTES = 8_000  # for a corpus of many blocks that fairseq reads in a moment


@pytest.fixture
def text(tmp_path) -> Path:
    """The corpus as text, in a folder with a space in its name."""
    folder = tmp_path / "my text"
    folder.mkdir()
    for split, sides in SENTENCES.items():
        for language, lines in zip(("en", "de"), sides, strict=True):
            (folder / f"{split}.{language}").write_text("".join(f"{x}\n" for x in lines))
    return folder


@pytest.fixture(scope="module")
def strange(tmp_path_factory) -> Path:
    """A corpus with everything that fairseq could count or number differently, in many blocks."""
    folder = tmp_path_factory.mktemp("strange")
    rng = random.Random(4)
    words = ["".join(rng.choices("abcdefghé\U0001f600", k=rng.randint(1, 4))) for _ in range(900)]
    odd = ["<s>", "<pad>", "</s>", "<unk>", "madeupword0001", "a\u200bb", "#fairseq:overwrite"]
    words[30:30] = odd
    spaces = [" "] * 20 + ["  ", "\t", "\u00a0", "\u2028", "\u0085", "\x1c"]
    weights = [1 / rank for rank in range(1, len(words) + 1)]

    def line() -> str:
        chosen = rng.choices(words, weights, k=rng.choice((0, 1, 5, 20)))
        return "".join(word + rng.choice(spaces) for word in chosen)

    for split, count in (("train", 1500), ("valid", 50), ("test", 1)):
        for language in ("en", "de"):
            content = "".join(f"{line()}\n" for _ in range(count))
            (folder / f"{split}.{language}").write_bytes(content.encode("utf-8"))
    assert (folder / "train.en").stat().st_size > 2 * BLOCK_BYTES
    (folder / "dict").write_text(
        "".join(f"{x} 1\n" for x in "\u2581a <0x0A> a b never c d e".split())
        + "a 1 #fairseq:overwrite\n"
    )
    return folder


@pytest.fixture
def ours(monkeypatch, capsys):
    """A function of flags that runs the script here, in small blocks, and gives what it prints."""
    read = parallel.read_blocks
    monkeypatch.setattr(parallel, "read_blocks", lambda path, size=0: read(path, BLOCK_BYTES))

    def run(*flags: object) -> str:
        monkeypatch.setattr(sys, "argv", ["binarize.py", *map(str, flags)])
        script.main(script.Flags())
        return capsys.readouterr().out

    return run


def fairseq_preprocess(*flags: object) -> None:
    """Runs fairseq's own command in this process, which has fairseq's imports behind it."""
    from fairseq import options
    from fairseq_cli import preprocess

    preprocess.main(options.get_preprocessing_parser().parse_args(list(map(str, flags))))
    log = preprocess.logger.handlers.pop()
    log.close()
    Path(log.baseFilename).unlink()


@pytest.mark.parametrize(
    ("theirs", "flags"),
    [
        ("--joined-dictionary --padding-factor 8", "--workers 1"),
        (
            "--joined-dictionary --thresholdsrc 2 --padding-factor 70000",
            "--threshold 2 --padding-factor 70000 --workers 1",
        ),
        (
            "--nwordssrc 5 --nwordstgt 2000 --thresholdsrc 3 --thresholdtgt 3 --padding-factor 1",
            "--source-rows 5 --target-rows 2000 --threshold 3 --padding-factor 1 --workers 2",
        ),
        # Symbols that the text lacks keep their rows, and the text's others are unknown.
        ("--joined-dictionary --srcdict dict", "--dictionary dict --workers 1"),
    ],
)
def test_files_are_those_of_fairseq(strange, ours, tmp_path, monkeypatch, theirs, flags):
    monkeypatch.chdir(strange)
    prefixes = [part for split in SENTENCES for part in (f"--{split}pref", split)]
    pair = ("--source-lang", "en", "--target-lang", "de", "--workers", 1)
    fairseq_preprocess(*pair, *prefixes, *theirs.split(), "--destdir", tmp_path / "theirs")
    splits = [part for split in SENTENCES for part in (f"--{split}", split)]
    said = ours("--pair", "en-de", *splits, *flags.split(), "--output", tmp_path / "ours")
    rows = 4 + (tmp_path / "ours" / "dict.en.txt").read_bytes().count(b"\n")
    assert f"types.en {rows}" in said
    lines = [line.split() for line in (strange / "test.en").read_text("utf-8").split("\n")[:-1]]
    known = Dictionary.load(str(tmp_path / "ours" / "dict.en.txt")).indices
    words = [word for line in lines for word in (*line, "</s>")]
    share = sum(known.get(word, 3) == 3 for word in words) / len(words)
    assert f"test 1 ({100 * share:.3g}% and" in said
    names = sorted(path.name for path in (tmp_path / "ours").iterdir())
    assert len(names) == 14  # two dictionaries, .bin and .idx of three splits in two languages
    assert names == sorted(path.name for path in (tmp_path / "theirs").iterdir())
    for name in names:
        content = (tmp_path / "ours" / name).read_bytes()
        if "--dictionary" in flags and name.startswith("dict"):
            Dictionary.load(str(tmp_path / "ours" / name))  # it refuses theirs
            content = content.replace(b" #fairseq:overwrite\n", b"\n")
        assert content == (tmp_path / "theirs" / name).read_bytes()


@pytest.mark.parametrize(
    ("files", "flags", "part"),
    [
        ({}, "--source-rows 9", "--source-rows and --target-rows go together"),
        ({}, "--dictionary x --threshold 2", "--dictionary: leave out --threshold"),
        ({}, "--dictionary x --padding-factor 8", "--dictionary: leave out --threshold"),
        ({"test.en": b"a\nb\n"}, "", "test.en has 2 lines, test.de 1"),
        ({"train.en": b""}, "--pair en", "--pair en: give two different languages"),
        ({"out/model.pt": b"", "out/dict.en.txt": b""}, "", "out: it holds model.pt"),
    ],
)
def test_mistakes_write_nothing(text, files, flags, part):
    for name, content in files.items():
        (text / name).parent.mkdir(exist_ok=True)
        (text / name).write_bytes(content)
    before = sorted(text.rglob("*"))
    splits = [word for split in SENTENCES for word in (f"--{split}", split)]
    flags = ["--pair", "en-de", *splits, "--output", "out", *flags.split()]
    assert_one_line_error(run_script("data-prep/binarize.py", *flags, cwd=text), part)
    assert sorted(text.rglob("*")) == before


def test_sizes_are_read_back_or_the_index_is_refused(tmp_path):
    (tmp_path / "text").write_text("a b c\n\nd e\n")
    counts = binary.binarize(str(tmp_path / "text"), tmp_path / "x", [(s, 1) for s in "abcd"], 1)
    assert counts == (3, 8, 1)
    assert binary.read_numbers(tmp_path / "x")[1].tolist() == [4, 1, 3]
    whole = (tmp_path / "x.idx").read_bytes()
    for content in (whole[:-1], whole + b"\0", b"", b"TNTIDX" + whole[6:]):
        (tmp_path / "x.idx").write_bytes(content)
        with pytest.raises(UserError, match=r"x\.idx: "):
            binary.read_numbers(tmp_path / "x")
    (tmp_path / "x.idx").write_bytes(whole)
    (tmp_path / "x.bin").write_bytes(b"\0" * 14)
    with pytest.raises(UserError, match=r"isn't the index of .*x\.bin"):
        binary.read_numbers(tmp_path / "x")
