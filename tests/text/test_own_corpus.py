"""own_corpus.py, own_lines.py and own_text.py: cleaned, divided, and no sentence in two splits."""

import gzip
import json
import random
from pathlib import Path

import pytest

from tests.support.scripts import assert_one_line_error, run_script
from vaswani_plugin.text.own_corpus import held_out_size
from vaswani_plugin.text.own_report import sacrebleu_tokenizer
from vaswani_plugin.text.splitting import letters_and_digits

SCRIPT = "data-prep/own_text.py"
SPLITS = ("train", "valid", "test")
Pair = tuple[str, str]


def pairs_of(seed: int, count: int = 600) -> list[Pair]:
    """A made-up language pair; a tenth of the sentences come in several pairs."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("aeiounrst", k=rng.randint(3, 7))) for _ in range(80)]

    def sentence() -> str:
        return " ".join(rng.choices(words, k=rng.randint(3, 8))).capitalize()

    lefts = [sentence() for _ in range(count)]
    pairs = [(left, translated(left)) for left in lefts]
    for _ in range(count // 10):
        left = rng.choice(lefts)
        pairs.append((left.upper() + "!", translated(sentence())))
    return pairs


def translated(sentence: str) -> str:
    """Into a language with other letters."""
    return sentence.translate(str.maketrans("aeiounrstAEIOUNRST", "оеияюмлкпОЕИЯЮМЛКП")) + "."


def write(folder: Path, pairs: list[Pair], name: str = "a") -> list[Path]:
    """Both sides as NAME.aa and NAME.bb."""
    paths = [folder / f"{name}.aa", folder / f"{name}.bb"]
    for side, path in enumerate(paths):
        path.write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    return paths


def run(work: Path, *args: object, pair: bool = True):
    """Runs the script, with the splits in WORK/raw."""
    flags = ("--pair", "aa-bb") if pair else ()
    return run_script(
        SCRIPT, *flags, *args, "--output", work / "raw", "--report", work / "corpus.json"
    )


def split_pairs(work: Path, name: str) -> list[Pair]:
    """A split."""
    sides = [(work / "raw" / f"{name}.{side}").read_text("utf-8") for side in ("aa", "bb")]
    return list(zip(*(side.split("\n")[:-1] for side in sides), strict=True))


def report(work: Path, done) -> dict:
    """The report of a run that went well."""
    assert done.returncode == 0, done.stderr
    return json.loads((work / "corpus.json").read_text())


def assert_no_leak(work: Path) -> None:
    """By brute force: no sentence, compared by letters and digits, is in two splits."""
    for side in (0, 1):
        seen = [{letters_and_digits(p[side]) for p in split_pairs(work, name)} for name in SPLITS]
        assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])


@pytest.mark.parametrize("seed", range(3))
def test_one_corpus_gives_three_splits_without_a_leak(tmp_path, seed):
    pairs = pairs_of(seed)
    found = report(tmp_path, run(tmp_path, "--train", *write(tmp_path, pairs)))
    assert_no_leak(tmp_path)
    splits = {name: split_pairs(tmp_path, name) for name in SPLITS}
    distinct = list(dict.fromkeys(pairs))
    assert sorted(sum(splits.values(), [])) == sorted(distinct)
    assert splits["train"] == [pair for pair in distinct if pair in set(splits["train"])]
    assert found["splits"] == {name: len(chosen) for name, chosen in splits.items()}
    assert all(50 <= found["splits"][name] <= 55 for name in ("valid", "test"))
    letters = set("".join(left + right for left, right in splits["train"]))
    assert found["letters"] == len(letters)
    assert found["sides"][1] == {
        "language": "bb",
        "characters": sum(len(right) for _, right in splits["train"]),
        "words": sum(len(right.split()) for _, right in splits["train"]),
    }


def test_the_same_text_as_columns_gives_the_same_splits(tmp_path):
    pairs = pairs_of(1)
    report(tmp_path, run(tmp_path, "--train", *write(tmp_path, pairs)))
    table = tmp_path / "a.tsv.gz"
    table.write_bytes(gzip.compress("".join(f"{a}\t{b}\n" for a, b in pairs).encode()))
    other = tmp_path / "other"
    other.mkdir()
    report(other, run(other, "--train", table))
    assert all(split_pairs(tmp_path, name) == split_pairs(other, name) for name in SPLITS)


def test_held_out_sets_of_the_user_are_kept_and_their_sentences_leave_the_training_text(tmp_path):
    pairs = pairs_of(2)
    test, valid = pairs[:40], pairs[30:70]  # ten pairs are in both
    flags = ("--test", *write(tmp_path, test, "t"), "--valid", *write(tmp_path, valid, "v"))
    found = report(tmp_path, run(tmp_path, "--train", *write(tmp_path, pairs), *flags))
    assert split_pairs(tmp_path, "test") == test
    assert split_pairs(tmp_path, "valid") == [p for p in valid if p not in set(test)]
    assert_no_leak(tmp_path)
    dropped = found["files"]["train"]["dropped"]["shares a sentence with held-out text"]
    assert dropped == {
        "count": len(pairs) - found["splits"]["train"],
        "first": f"{tmp_path}/a.aa:1",
    }
    only_test = tmp_path / "only"
    only_test.mkdir()
    report(only_test, run(only_test, "--train", tmp_path / "a.aa", tmp_path / "a.bb", *flags[:3]))
    assert split_pairs(only_test, "test") == test and len(split_pairs(only_test, "valid")) >= 50
    assert_no_leak(only_test)


def test_old_text_is_mixed_in_without_a_leak(tmp_path):
    new, old = pairs_of(3, 300), pairs_of(4, 900)
    files = write(tmp_path, new), write(tmp_path, old + new, "old"), write(tmp_path, new[:30], "k")
    flags = ("--mix-old", *files[1], "--mix-ratio", 0.5, "--keep-out", *files[2])
    found = report(tmp_path, run(tmp_path, "--train", *files[0], *flags))
    assert_no_leak(tmp_path)
    train = split_pairs(tmp_path, "train")
    count = found["splits"]["old"]
    assert count == round(0.5 * (len(train) - count)) and set(train[-count:]) <= set(old + new)
    assert sum(pair in set(old) for pair in train) > count / 2
    kept_out = {letters_and_digits(side) for pair in new[:30] for side in pair}
    assert not kept_out & {letters_and_digits(side) for pair in train for side in pair}


def test_text_that_is_kept_out_leaves_the_training_text_alone(tmp_path):
    """As when a model is fine-tuned and tested on its old test set, which is also kept out."""
    pairs = pairs_of(6)
    held_out = {"test": pairs[:40], "valid": pairs[40:90]}
    flags = ["--train", *write(tmp_path, pairs), "--keep-out", *write(tmp_path, pairs[:60], "k")]
    for name, chosen in held_out.items():
        flags += [f"--{name}", *write(tmp_path, chosen, name)]
    report(tmp_path, run(tmp_path, *flags))
    assert {name: split_pairs(tmp_path, name) for name in held_out} == held_out
    assert_no_leak(tmp_path)


def test_the_report_says_what_was_dropped_and_why(tmp_path):
    pairs = pairs_of(5)
    pairs[3:3] = [
        ("", "Пусто."),
        ("Same text", "same  text!"),
        pairs[0],
        ("1848", "Год"),
        ("a\x01b", "c"),
    ]
    pairs[20:20] = [pairs[30][::-1]] * 2
    done = run(tmp_path, "--train", *write(tmp_path, pairs))
    found = report(tmp_path, done)["files"]["train"]
    place = f"{tmp_path}/a.aa"
    assert found["dropped"] == {
        "empty": {"count": 1, "first": f"{place}:4"},
        "the same text on both sides": {"count": 1, "first": f"{place}:5"},
        "repeated": {"count": 1, "first": f"{place}:6"},
        "letters on one side only": {"count": 1, "first": f"{place}:7"},
        "control character": {"count": 1, "first": f"{place}:8"},
        "sides swapped": {"count": 2, "first": f"{place}:21"},
    }
    assert found["read"] - 7 == found["kept"]
    assert f"dropped 2: sides swapped (first {place}:21)" in done.stdout


@pytest.mark.parametrize(
    ("left", "right", "parts"),
    [
        (b"a\nb\nc\n", b"x\n", ["a.bb has 1 lines", "a.aa has 3", "line by line"]),
        (b"", b"", ["a.aa", "a.bb", "both files are empty"]),
        (b"a\n", b"", ["a.bb: the file is empty"]),
        (b"a\nb\n", b"x\ny\xe9\n", ["a.bb:2: invalid UTF-8", "iconv"]),
        (b"a b c\n" * 3, b"x y z\n" * 3, ["a.aa", "1 pairs are too few", "at least 20"]),
        (b"\n" * 30, b"x\n" * 30, ["a.aa:1: empty: 30 of 30 pairs"]),
        (
            b"Ja.\n" * 90,
            b"Nein, " * 9 + b"\n" + b"Ja.\n" * 89,
            ["a.aa:2: the same text", "--copies"],
        ),
    ],
)
def test_unusable_corpora(tmp_path, left, right, parts):
    (tmp_path / "a.aa").write_bytes(left)
    (tmp_path / "a.bb").write_bytes(right)
    assert_one_line_error(run(tmp_path, "--train", tmp_path / "a.aa", tmp_path / "a.bb"), *parts)
    assert not (tmp_path / "corpus.json").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.aa", "a.bb", "raw"]
    assert not list((tmp_path / "raw").iterdir())


def test_a_corpus_of_copies_can_be_meant(tmp_path):
    pairs = [(f"Line {n} stays.", f"Line {n} stays.") for n in range(90)]
    pairs += [(f"Linne {n} changes.", f"Line {n} changes.") for n in range(10)]
    files = write(tmp_path, pairs)
    done = run(tmp_path, "--train", *files)
    assert_one_line_error(done, "a.aa:1: the same text on both sides: 90 of 100 pairs", "--copies")
    found = report(tmp_path, run(tmp_path, "--train", *files, "--copies", "keep"))
    assert found["files"]["train"]["kept"] == 100


def test_columns_that_are_none(tmp_path):
    table = tmp_path / "a.tsv"
    table.write_text("only one\n" * 30)
    assert_one_line_error(run(tmp_path, "--train", table), "a.tsv:1: only one column", "tab")
    lines = [f"{a}\t{b}" for a, b in pairs_of(1)]
    lines[4] = lines[4].replace("\t", " ")
    table.write_text("\n".join(lines) + "\n")
    found = report(tmp_path, run(tmp_path, "--train", table))
    dropped = found["files"]["train"]["dropped"]["only one column"]
    assert dropped == {"count": 1, "first": f"{table}:5"}


ENGLISH = "The {} is on the hill and it was in the {} with the {}."
GERMAN = "Der {} ist auf dem Berg und er war in dem {} mit der {}."


@pytest.mark.parametrize("which", ["train", "test"])
def test_files_whose_languages_are_the_other_way_round(tmp_path, which):
    names = ["Hut", "Arm", "Wind", "Ring", "Sand"]
    rng = random.Random(1)
    pairs = [
        tuple(text.format(*rng.choices(names, k=3)) for text in (ENGLISH, GERMAN))
        for _ in range(99)
    ]
    good, bad = write(tmp_path, pairs), write(tmp_path, pairs, "t")[::-1]
    files = {"train": good, "test": good} | {which: bad}
    flags = ("--train", *files["train"], "--test", *files["test"], "--pair", "en-de")
    done = run(tmp_path, *flags, pair=False)
    assert_one_line_error(done, str(bad[0]), "source and target seem swapped", "--pair de-en")


def test_pipes_and_other_mistakes(tmp_path):
    files = write(tmp_path, pairs_of(1))
    for flags, part in [
        (("--train", "-"), "-: a pipe can't be read twice"),
        (("--train", tmp_path / "none.aa", files[1]), "none.aa: No such file"),
        (("--train", *files, "--test-size", 0), "--test-size 0"),
        (("--train", *files, "--valid-size", -5), "--valid-size -5: must be at least 1"),
        (("--train", *files, "--test-size", 5000), "5000 pairs for test: the corpus has too few"),
        (("--train", *files, "--mix-old", *files, "--mix-ratio", -1), "--mix-ratio -1"),
        (("--train", *files, "--mix-old", *files, "--mix-ratio", "inf"), "--mix-ratio inf"),
        (("--train", *files, "--mix-ratio", 7), "--mix-ratio 7: goes with --mix-old FILE"),
        (("--train", *files, "--valid", *files, "--valid-size", 5), "--valid-size 5: leave it out"),
        (("--train", *files, "--max-length", 0), "--max-length 0"),
    ]:
        assert_one_line_error(run(tmp_path, *flags), part)
    for flags in (("--max-length", 9), ("--copies", "keep"), ("--mix-ratio", 1)):
        done = run(tmp_path, "--train", files[0], *flags, pair=False)
        assert_one_line_error(done, f"{flags[0]}: goes with --pair")
    done = run(tmp_path, "--train", files[0], "--valid-size", 0, pair=False)
    assert_one_line_error(done, "--valid-size 0: must be at least 1")
    done = run(tmp_path, "--train", *files, "--pair", "aa-aa", pair=False)
    assert_one_line_error(done, "--pair aa-aa: two different languages")


@pytest.mark.parametrize("name", ["train", "test"])
def test_input_files_are_never_replaced(tmp_path, name):
    (tmp_path / "raw").mkdir()
    files = write(tmp_path / "raw", pairs_of(1), name)
    before = [path.read_bytes() for path in files]
    others = () if name == "train" else ("--train", *write(tmp_path, pairs_of(2)))
    done = run(tmp_path, *others, f"--{name}", *files)
    assert_one_line_error(done, f"--output and --report: {files[0]} is an input", "give another")
    done = run(tmp_path, "--train", tmp_path / "raw" / "train.txt", pair=False)
    assert_one_line_error(done, "raw/train.txt is an input")
    assert [path.read_bytes() for path in files] == before
    assert sorted((tmp_path / "raw").iterdir()) == files


@pytest.mark.parametrize(
    ("pairs", "size"), [(20, 2), (500, 50), (2000, 100), (30_000, 1500), (10**7, 2000)]
)
def test_sizes_of_held_out_sets(pairs, size):
    assert held_out_size(pairs) == size


@pytest.mark.parametrize(
    ("language", "text", "tokenizer"),
    [
        ("zh", "房子 在 山上", "zh"),
        ("zh_TW", "房子在山上", "zh"),
        ("ja", "家は丘の上にあり、海から遠くありません。", "char"),
        ("th", "บ้านอยู่บนเนินเขาและไม่ไกลจากทะเล", "char"),
        ("fi", "Epäjärjestelmällisyydestään kärsivä talo on kukkulalla.", "13a"),
        ("hi", "घर पहाड़ी पर है और समुद्र से दूर नहीं है।", "13a"),
    ],
)
def test_what_counts_as_a_word_in_scoring(language, text, tokenizer):
    assert sacrebleu_tokenizer(language, len(text), len(text.split())) == tokenizer


def lines_of(path: Path) -> list[str]:
    return path.read_text("utf-8").split("\n")[:-1]


def test_one_text_is_divided_in_its_order(tmp_path):
    text = [f"Line number {n} of a text that is long enough." for n in range(1000)]
    lines = [
        x for n, line in enumerate(text) for x in ([line, "CHORUS:"] if n % 5 == 0 else [line])
    ]
    noisy = [*lines[:10], "", text[3], *lines[10:], text[7]]
    path = tmp_path / "a.txt"
    path.write_text("\n".join(noisy) + "\n")
    found = report(tmp_path, run(tmp_path, "--train", path, pair=False))
    splits = {name: lines_of(tmp_path / "raw" / f"{name}.txt") for name in SPLITS}
    assert sum(splits.values(), []) == lines
    assert {name: len(chosen) for name, chosen in splits.items()} == found["splits"]
    assert found["splits"] == {"train": 1080, "valid": 60, "test": 60}
    assert found["files"]["train"]["dropped"] == {
        "empty": {"count": 1, "first": f"{path}:11"},
        "repeated": {"count": 2, "first": f"{path}:12"},
    }


def test_one_text_with_held_out_text_of_its_own(tmp_path):
    text = [f"Line number {n} of a text that is long enough." for n in range(100)]
    for name, lines in (("train", text), ("test", text[40:50]), ("valid", ["Short.", *text[90:]])):
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    flags = [x for name in SPLITS for x in (f"--{name}", tmp_path / f"{name}.txt")]
    report(tmp_path, run(tmp_path, *flags, pair=False))
    assert lines_of(tmp_path / "raw" / "train.txt") == text[:40] + text[50:90]
    assert lines_of(tmp_path / "raw" / "test.txt") == text[40:50]
    kept_out = ("--keep-out", tmp_path / "test.txt")
    report(tmp_path, run(tmp_path, "--train", tmp_path / "train.txt", *kept_out, pair=False))
    splits = [lines_of(tmp_path / "raw" / f"{name}.txt") for name in SPLITS]
    assert sum(splits, []) == text[:40] + text[50:]
    # Also where the text that is kept out is the test set itself.
    report(tmp_path, run(tmp_path, *flags, *kept_out, pair=False))
    assert lines_of(tmp_path / "raw" / "train.txt") == text[:40] + text[50:90]
    assert lines_of(tmp_path / "raw" / "test.txt") == text[40:50]
    done = run(tmp_path, "--train", tmp_path / "test.txt", pair=False)
    assert_one_line_error(done, "test.txt: 10 lines are too few")
    done = run(tmp_path, "--train", tmp_path / "train.txt", "--test-size", 99, pair=False)
    assert_one_line_error(done, "--test-size 99", "nothing is left")
    done = run(tmp_path, "--train", tmp_path / "train.txt", tmp_path / "test.txt", pair=False)
    assert_one_line_error(done, "a language model takes one file")
