"""binarize.py: the files are those of fairseq-preprocess; mistakes leave no folder."""

import random
import struct
import sys
from pathlib import Path

import binarize as script
import numpy as np
import pytest

from tests.support.scripts import assert_one_line_error, run_script
from vaswani_plugin.errors import UserError
from vaswani_plugin.text import binary, parallel

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


@pytest.fixture(scope="module")
def strange(tmp_path_factory) -> Path:
    """A corpus with everything that fairseq could count or number differently, in many blocks."""
    folder = tmp_path_factory.mktemp("strange")
    rng = random.Random(4)
    words = [
        "".join(rng.choices("abcdefgh\u00e9\U0001f600", k=rng.randint(1, 4))) for _ in range(900)
    ]
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
    return folder


@pytest.fixture
def ours(monkeypatch, capsys):
    """A function of flags that runs the script here, in small blocks, and gives what it prints."""
    read = parallel.read_blocks
    monkeypatch.setattr(parallel, "read_blocks", lambda path, size=0: read(path, BLOCK_BYTES))

    def run(*flags: object) -> str:
        monkeypatch.setattr(sys, "argv", ["binarize.py", *map(str, flags)])
        script.main()
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
    ("threshold", "factor", "workers"), [(0, 8, 1), (20, 1000, 2), (2, 70_000, 1)]
)
def test_files_are_those_of_fairseq(strange, ours, tmp_path, threshold, factor, workers):
    prefixes = [part for split in SENTENCES for part in (f"--{split}pref", strange / split)]
    fairseq_preprocess(
        "--source-lang", "en", "--target-lang", "de", *prefixes, "--joined-dictionary",
        "--thresholdsrc", threshold, "--padding-factor", factor,
        "--destdir", tmp_path / "theirs", "--workers", 1,
    )  # fmt: skip
    splits = [part for split in SENTENCES for part in (f"--{split}", strange / split)]
    ours(
        "--pair", "en-de", *splits, "--threshold", threshold,
        "--padding-factor", factor, "--workers", workers, "--output", tmp_path / "ours",
    )  # fmt: skip
    names = sorted(path.name for path in (tmp_path / "ours").iterdir())
    assert len(names) == 14  # two dictionaries, .bin and .idx of three splits in two languages
    assert names == sorted(path.name for path in (tmp_path / "theirs").iterdir())
    for name in names:
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes()


@pytest.mark.parametrize(("rows", "factor", "threshold"), [((160, 80), 8, 0), ((5, 2000), 1, 3)])
def test_dictionaries_of_the_most_frequent_words_are_those_of_fairseq(
    strange, ours, tmp_path, rows, factor, threshold
):
    prefixes = [part for split in SENTENCES for part in (f"--{split}pref", strange / split)]
    fairseq_preprocess(
        "--source-lang", "en", "--target-lang", "de", *prefixes,
        "--nwordssrc", rows[0], "--nwordstgt", rows[1],
        "--thresholdsrc", threshold, "--thresholdtgt", threshold, "--padding-factor", factor,
        "--destdir", tmp_path / "theirs", "--workers", 1,
    )  # fmt: skip
    splits = [part for split in SENTENCES for part in (f"--{split}", strange / split)]
    said = ours(
        "--pair", "en-de", *splits, "--source-rows", rows[0],
        "--target-rows", rows[1], "--threshold", threshold, "--padding-factor", factor,
        "--workers", 2, "--output", tmp_path / "ours",
    )  # fmt: skip
    assert f"types.en {rows[0]}" in said
    names = sorted(path.name for path in (tmp_path / "ours").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "theirs").iterdir())
    for name in names:
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes()


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (["--source-rows", 9], "--source-rows and --target-rows go together"),
        (["--source-rows", 9, "--target-rows", 9, "--dictionary", "x"], "--dictionary: leave out"),
        (["--source-rows", 9, "--target-rows", 4], "--target-rows 4: must be at least 5"),
    ],
)
def test_mistaken_rows(text, flags, part):
    assert_one_line_error(binarize(text, *flags), part)
    assert not (text.parent / "data bin").exists()


def test_files_with_a_given_dictionary_are_those_of_fairseq(strange, ours, tmp_path):
    """Symbols that the text lacks keep their rows, and the text's others are unknown."""
    symbols = ["\u2581a", "<0x0A>", "a", "b", "never", "c", "d", "e"]
    (tmp_path / "dict").write_text("".join(f"{symbol} 1\n" for symbol in symbols))
    prefixes = [part for split in SENTENCES for part in (f"--{split}pref", strange / split)]
    fairseq_preprocess(
        "--source-lang", "en", "--target-lang", "de", *prefixes, "--joined-dictionary",
        "--srcdict", tmp_path / "dict", "--destdir", tmp_path / "theirs", "--workers", 1,
    )  # fmt: skip
    splits = [part for split in SENTENCES for part in (f"--{split}", strange / split)]
    ours(
        "--pair", "en-de", *splits, "--dictionary", tmp_path / "dict",
        "--padding-factor", 4, "--workers", 1, "--output", tmp_path / "ours",
    )  # fmt: skip
    names = sorted(path.name for path in (tmp_path / "ours").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "theirs").iterdir())
    for name in names:
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes()


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("a 1\nb\n", ["dict:2", "must be a symbol, a space and a count"]),
        ("a 1\na 2\n", ["dict:2", "already"]),
        ("<pad> 1\n", ["dict:1", "already"]),
        ("", ["dict: the file is empty"]),
    ],
)
def test_a_bad_dictionary_is_named(text, content, parts):
    (text / "dict").write_text(content)
    assert_one_line_error(binarize(text, "--dictionary", text / "dict", "--workers", 1), *parts)
    assert not (text.parent / "data bin").exists()


def test_a_given_dictionary_has_no_threshold(text):
    assert_one_line_error(binarize(text, "--dictionary", "x", "--threshold", 2), "--threshold")


def test_the_index_is_that_of_the_formats_description(tmp_path):
    lines = [" ".join("a" * (i * 7 % 5)) for i in range(10)]
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines))
    assert binary.binarize(str(tmp_path / "text"), tmp_path / "out", ["a"], 1) == 10
    sizes = [i * 7 % 5 + 1 for i in range(10)]
    expected = b"MMIDIDX\0\0" + struct.pack("<QBQ", 1, 8, 10) + struct.pack("<10i", *sizes)
    expected += struct.pack("<10q", *(2 * sum(sizes[:i]) for i in range(10)))
    assert (tmp_path / "out.idx").read_bytes() == expected
    tokens = np.fromfile(tmp_path / "out.bin", dtype="<u2")
    assert tokens.tolist() == [token for size in sizes for token in [4] * (size - 1) + [2]]


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


def test_other_files_are_never_replaced(text):
    """Neither a folder of something else, nor one with the texts in it."""

    def binarize_into(output):
        prefixes = [part for name in SENTENCES for part in (f"--{name}", text / name)]
        script = ("data-prep/binarize.py", "--pair", "en-de", "--workers", 1)
        return run_script(*script, *prefixes, "--output", output)

    before = {path.name: path.read_bytes() for path in text.iterdir()}
    assert_one_line_error(binarize_into(text), "is no folder of binarized data")
    (text / "dict.en.txt").write_text("a 1\n")
    assert_one_line_error(binarize_into(text), "train.en lies in it: give another folder")
    (text / "dict.en.txt").unlink()
    assert_one_line_error(binarize_into(text / "train.en"), "is no folder of binarized data")
    assert {path.name: path.read_bytes() for path in text.iterdir()} == before
    (text.parent / "empty").mkdir()
    assert binarize_into(text.parent / "empty").returncode == 0


@pytest.mark.parametrize(
    "name",
    ["model.pt", "checkpoint_best.pt", "model.safetensors", "model.bin", "m.onnx", "folder/"],
)
def test_a_bundle_is_never_replaced(text, name):
    """It has dictionaries, too."""
    assert binarize(text, "--workers", 1).returncode == 0
    extra = text.parent / "data bin" / name
    extra.mkdir() if name.endswith("/") else extra.write_bytes(b"weights")
    before = sorted(path.name for path in extra.parent.iterdir())
    said = f"it holds {extra.name}, so it is more", "give another --output"
    assert_one_line_error(binarize(text, "--workers", 1), *said)
    assert sorted(path.name for path in extra.parent.iterdir()) == before
    assert name.endswith("/") or extra.read_bytes() == b"weights"


def test_a_link_keeps_its_target(text, tmp_path):
    """A link to nothing, then to what the first run wrote."""
    target, link = tmp_path / "disk" / "bin", text.parent / "data bin"
    link.symlink_to(target)
    for stale in (False, True):
        if stale:
            (target / "stale").write_text("")
        done = binarize(text, "--workers", 1)
        assert done.returncode == 0, done.stderr
        assert link.is_symlink() and (target / "train.en-de.en.bin").is_file()
        assert not (target / "stale").exists()
    assert [path.name for path in target.parent.iterdir()] == ["bin"]


@pytest.mark.parametrize(
    ("spoil", "parts"),
    [
        (lambda text: (text / "valid.de").unlink(), ["--valid", "valid.de does not exist"]),
        (lambda text: (text / "test.en").write_text("a\nb\n"), ["differ in length"]),
        (lambda text: (text / "train.en").write_bytes(b"a\n\xff\nc\n"), ["train.en:2: invalid"]),
        (lambda text: [(text / f"valid.{x}").write_text("") for x in ("en", "de")], ["are empty"]),
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


def test_sizes_are_read_back_or_the_index_is_refused(tmp_path):
    (tmp_path / "text").write_text("a b c\n\nd e\n")
    assert binary.binarize(str(tmp_path / "text"), tmp_path / "x", ["a", "b", "c", "d"], 1) == 3
    assert binary.read_sizes(tmp_path / "x").tolist() == [4, 1, 3]
    whole = (tmp_path / "x.idx").read_bytes()
    rng = random.Random(1)
    broken = [whole[:-1], whole + b"\0", b"", whole[:20], b"TNTIDX" + whole[6:]]
    for _ in range(200):
        place = rng.randrange(len(whole))
        broken.append(
            whole[:place] + bytes([whole[place] ^ 1 << rng.randrange(8)]) + whole[place + 1 :]
        )
    for content in broken:
        (tmp_path / "x.idx").write_bytes(content)
        with pytest.raises(UserError, match=r"x\.idx: "):
            binary.read_sizes(tmp_path / "x")
    (tmp_path / "x.idx").write_bytes(whole)
    (tmp_path / "x.bin").write_bytes(b"\0" * 14)
    with pytest.raises(UserError, match=r"isn't the index of .*x\.bin"):
        binary.read_sizes(tmp_path / "x")
