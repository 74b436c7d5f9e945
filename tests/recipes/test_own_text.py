"""own_text.sh: choices by size, text of any languages to a bundle, fine-tuning, mistakes."""

import gzip
import json
import shlex
import shutil
import subprocess
from pathlib import Path

import preloaded
import pytest
import torch

from tests.support.scripts import (
    ROOT,
    assert_one_line_error,
    run_bash,
    stages_run,
)
from tests.support.toy_text import toy_lines
from vaswani_plugin.text.cleaning import normal_form
from vaswani_plugin.text.settings import Settings, TextSettings

RECIPE = ROOT / "recipes" / "own_text.sh"
STAGES = "corpus tokenize subwords binarize train average translate score bundle".split()
PAIRS = 2000


def lines_of(path: Path) -> list[str]:
    """The lines of a text file."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def run_recipe(work: Path, *args: object, **environment: str) -> subprocess.CompletedProcess:
    """Runs the recipe at --scale tiny."""
    flags = ("--scale", "tiny", "--cpu", "--work", work)
    return run_bash(RECIPE, *flags, *args, timeout=900, **environment)


def dry_run(*args: object) -> subprocess.CompletedProcess:
    """The recipe with --dry-run, on a CPU."""
    return run_bash(RECIPE, "--dry-run", "--cpu", "--work", "/no/such/work", *args)


def flags_of(done: subprocess.CompletedProcess, program: str) -> dict[str, str]:
    """Flag: value of the only command that begins with `program`."""
    assert done.returncode == 0, done.stderr
    commands = [shlex.split(x[2:]) for x in done.stderr.split("\n") if x.startswith("+ ")]
    (words,) = [words for words in commands if program in words[:2] or program in words[1]]
    named = [n for n, word in enumerate(words) if word.startswith("--")]
    return {words[n]: words[n + 1] for n in named if n + 1 < len(words)}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """A language pair that no recipe names: German spelled backwards, and English."""
    folder = tmp_path_factory.mktemp("my text")
    backwards = [line[::-1] for line in toy_lines("en-de/train.de")]
    english = toy_lines("en-de/train.en")
    for name, start, end in (("all", 0, PAIRS), ("new", PAIRS, PAIRS + 500)):
        for language, lines in (("ed", backwards), ("en", english)):
            text = "".join(f"{line}\n" for line in lines[start:end])
            (folder / f"{name}.{language}").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def finished(corpus, tmp_path_factory):
    """A finished run: its process and its work folder."""
    work = tmp_path_factory.mktemp("own text")
    return run_recipe(work, "--train", corpus / "all.ed", corpus / "all.en"), work


def assert_translates(bundle: Path, source: list[str]) -> None:
    """`vaswani translate` takes the bundle."""
    done = preloaded.run(
        *("-m", "vaswani_plugin.cli", "translate", "--cpu", "--model", bundle),
        input="".join(f"{line}\n" for line in source),
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == len(source)


def test_two_thousand_pairs_end_with_a_bundle_and_a_score(finished):
    done, work = finished
    assert stages_run(done) == STAGES
    result = json.loads((work / "result.json").read_text())
    assert (result["recipe"], result["arch"], result["updates"]) == (
        "own_text",
        "vaswani_debug",
        20,
    )
    assert 0 <= result["bleu"]["sacrebleu"] <= 100
    assert result["corpus"] == json.loads((work / "corpus.json").read_text())
    assert sum(result["corpus"]["splits"].values()) == result["corpus"]["files"]["train"]["kept"]
    for side in ("ed", "en"):
        seen = {n: lines_of(work / "raw" / f"{n}.{side}") for n in ("train", "valid", "test")}
        held_out = set(map(normal_form, seen["valid"] + seen["test"]))
        assert len(seen["test"]) >= 100 and len(lines_of(work / "output" / "test.en")) >= 100
        assert not held_out & set(map(normal_form, seen["train"]))
    assert done.stdout.strip().split("\n")[-1].startswith("own text ed-en: ")
    names = {path.name for path in (work / "model").iterdir()}
    assert names >= {"model.pt", "dict.ed.txt", "dict.en.txt", "sentencepiece.model"}
    assert_translates(work / "model", ["Etug nethcan", "", "ßüö"])


def test_the_second_run_does_nothing_and_continue_goes_on(finished, corpus, tmp_path):
    work = tmp_path / "w k"
    shutil.copytree(finished[1], work)
    train = ("--train", corpus / "all.ed", corpus / "all.en")
    assert stages_run(run_recipe(work, *train)) == []
    assert stages_run(run_recipe(work, *train, "--continue")) == STAGES[4:]
    assert json.loads((work / "result.json").read_text())["updates"] == 40
    assert "Loaded checkpoint" in (work / "logs" / "train.log").read_text()
    assert stages_run(run_recipe(work, *train)) == []
    done = run_recipe(work, *train, "--continue", "--seed", 2)
    assert done.returncode == 1
    assert "--continue: the text or the options have changed" in done.stderr
    done = run_recipe(tmp_path / "none", *train, "--continue", "--stop-stage", "binarize")
    assert done.returncode == 1 and "there is no training in" in done.stderr


def test_fine_tuning_keeps_the_vocabulary_and_says_what_it_cost(finished, corpus, tmp_path):
    before = finished[1] / "model"
    done = run_recipe(
        tmp_path,
        "--train",
        corpus / "new.ed",
        corpus / "new.en",
        "--init-from",
        before,
        "--mix-old",
    )
    assert stages_run(done) == [*STAGES, "compare"]
    bundle = tmp_path / "model"
    for name in ("dict.ed.txt", "dict.en.txt", "sentencepiece.model"):
        assert (bundle / name).read_bytes() == (before / name).read_bytes()
    assert (bundle / "model.pt").read_bytes() != (before / "model.pt").read_bytes()
    log = (tmp_path / "logs" / "train.log").read_text()
    assert f"loading pretrained model from {before}/model.pt" in log
    result = json.loads((tmp_path / "result.json").read_text())
    splits = result["corpus"]["splits"]
    assert splits["old"] and splits["train"] == 2 * splits["old"]
    scores = result["fine_tuning"]
    assert scores.pop("measure") == "sacreBLEU"
    assert scores.keys() == {"new_before", "new_after", "old_before", "old_after"}
    assert scores["old_before"] == pytest.approx(
        json.loads((finished[1] / "result.json").read_text())["bleu"]["sacrebleu"], abs=0.01
    )
    last = done.stdout.strip().split("\n")[-3:]
    assert last[0].startswith("new test: ") and last[1].startswith("old test: ")
    old_test = set(map(normal_form, lines_of(finished[1] / "raw" / "test.en")))
    assert not old_test & set(map(normal_form, lines_of(tmp_path / "raw" / "train.en")))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["quickstart", "wmt14_en_de"])
def test_fine_tuning_of_other_recipes_bundles(recipe, tmp_path):
    """Of words by Moses' rules and BPE, without and with limits by what was seen in training."""
    first = tmp_path / "first"
    flags = ("--scale", "tiny", "--cpu", "--work", first)
    done = run_bash(ROOT / "recipes" / f"{recipe}.sh", *flags, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    before = first / "model"
    has_limit = json.loads((before / "preprocessing.json").read_text())["vocabulary_threshold"]
    assert bool(has_limit) == (recipe == "wmt14_en_de")
    files = [first / "raw" / f"train.{language}" for language in ("en", "de")]
    done = run_recipe(tmp_path / "second", "--train", *files, "--init-from", before)
    assert stages_run(done) == [*STAGES, "compare"]
    bundle = tmp_path / "second" / "model"
    for path in before.iterdir():
        if path.name.startswith(("dict.", "codes", "vocabulary", "preprocessing")):
            assert (bundle / path.name).read_bytes() == path.read_bytes(), path.name
    rows = {line.split(" ")[0] for line in lines_of(before / "dict.de.txt")}
    for language in ("en", "de"):
        units = lines_of(tmp_path / "second" / "bpe" / f"train.{language}")
        known = [unit in rows for line in units for unit in line.split()]
        assert sum(known) > 0.99 * len(known)


@pytest.mark.slow
def test_a_language_model_and_its_fine_tuning(corpus, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    stages = "corpus code train average bundle evaluate sample".split()
    done = run_recipe(first, "--task", "lm", "--train", corpus / "all.en")
    assert stages_run(done) == stages
    result = json.loads((first / "result.json").read_text())
    assert result["ppl"]["results"][-1]["bits_per_character"] > 0
    assert result["corpus"]["sides"][0]["language"] == "text"
    flags = ("--train", corpus / "new.en", "--init-from", first / "model")
    done = run_recipe(second, "--task", "lm", *flags)
    assert stages_run(done) == [*stages[:-1], "compare", stages[-1]]
    for name in ("dict.txt", "codes"):
        assert (second / "model" / name).read_bytes() == (first / "model" / name).read_bytes()
    scores = json.loads((second / "result.json").read_text())["fine_tuning"]
    assert scores["measure"] == "bits a character" and scores["old_before"] > 0
    assert scores["new_after"] < scores["new_before"]


SCRIPTS = {
    "zh": ("房子在山上,离海不远。我们明天{}去看{}。", "The house {} is near the sea {}."),
    "ja": ("家は丘の上にあり、{}海から遠くない{}。", "Das Haus {} ist nicht weit vom Meer {}."),
    "ar": ("البيت {} على التل وليس بعيدا عن البحر {}.", "Дом {} недалеко от моря {}."),
    "hi": ("घर {} पहाड़ी पर है और समुद्र {} से दूर नहीं है।", "The house {} is near the sea {}."),
}


@pytest.mark.parametrize("language", SCRIPTS)
def test_any_script(language, tmp_path):
    """As far as the binarized text: no letter is unknown, and words need no blanks."""
    names = "甲乙丙丁戊己庚辛壬癸" if language in ("zh", "ja") else "कखगघङचछजझञ"
    if language == "ar":
        names = "ابتثجحخدذر"
    left, right = SCRIPTS[language]
    pairs = [
        (left.format(names[n // 10], names[n % 10]), right.format(f"A{n // 10}", f"b{n % 10}"))
        for n in range(100)
    ]
    table = tmp_path / f"my.{language}-xx.tsv"
    table.write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    done = run_recipe(tmp_path / "w", "--train", table, "--stop-stage", "binarize")
    assert stages_run(done) == STAGES[:4]
    report = json.loads((tmp_path / "w" / "corpus.json").read_text())
    assert report["files"]["train"]["kept"] == 100
    pieces = lines_of(tmp_path / "w" / "wordpiece" / f"train.{language}")
    assert 3 < sum(len(line.split()) for line in pieces) / len(pieces) < 60
    rows = {
        line.split(" ")[0] for line in lines_of(tmp_path / "w/data-bin" / f"dict.{language}.txt")
    }
    assert {piece for line in pieces for piece in line.split()} <= rows


def write_pairs(folder: Path, count: int) -> tuple[Path, Path]:
    """Two files of so many lines."""
    paths = folder / "t.aa", folder / "t.bb"
    for path in paths:
        path.write_text("x\n" * count)
    return paths


@pytest.mark.parametrize(
    ("pairs", "arch", "vocabulary", "tokens", "updates"),
    [
        (2000, "vaswani_tiny", 1000, "2048", "5000"),
        (10_001, "vaswani_tiny", 4000, "4096", "20000"),
        (100_001, "vaswani_tiny", 8000, "8192", "50000"),
        (1_000_001, "vaswani_base", 32_000, "4096", "100000"),
    ],
)
def test_choices_by_the_size_of_the_text(tmp_path, pairs, arch, vocabulary, tokens, updates):
    done = dry_run("--train", *write_pairs(tmp_path, pairs))
    train = flags_of(done, "fairseq-train")
    assert (train["--arch"], train["--max-tokens"], train["--max-update"]) == (
        arch,
        tokens,
        updates,
    )
    assert train["--patience"] == "8" and train["--keep-best-checkpoints"] == "5"
    assert train["--save-interval-updates"] == train["--validate-interval-updates"]
    # 256 bytes and 4 special pieces; the letters are counted once the text is there.
    (size,) = [x.split("--size ")[1].split()[0] for x in done.stderr.split("\n") if "--size" in x]
    assert int(size) == vocabulary + 260
    # The tables of the help and of the documentation say the same.
    texts = (
        run_bash(RECIPE, "--help").stdout,
        (ROOT / "docs" / "how-to" / "own-text.md").read_text("utf-8"),
    )
    wanted = [f" {vocabulary:,} ", arch, f"{int(tokens):,} ", f" {int(updates):,}"]
    for text in texts:
        assert sum(all(x in row for x in wanted) for row in text.split("\n")) == 1


def test_every_choice_is_an_option(tmp_path):
    done = dry_run(
        "--train", *write_pairs(tmp_path, 2000), "--arch", "vaswani_c_n2", "--vocabulary", 77,
        "--dropout", 0.2, "--max-tokens", 99, "--warmup-updates", 7, "--lr-factor", 0.5,
        "--max-update", 55, "--save-interval-updates", 11, "--patience", 3, "--update-freq", 2,
        "--tokenizer", "moses",
    )  # fmt: skip
    train = flags_of(done, "fairseq-train")
    expected = {
        "--arch": "vaswani_c_n2", "--dropout": "0.2", "--max-tokens": "99", "--patience": "3",
        "--warmup-updates": "7", "--lr-factor": "0.5", "--max-update": "55", "--update-freq": "2",
        "--save-interval-updates": "11",
    }  # fmt: skip
    assert {name: train[name] for name in expected} == expected
    assert " learn --operations 77 " in done.stderr and "normalize_tokenize.py" in done.stderr


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        ((), ["--train: give the training text"]),
        (("--train", "none.aa", "none.bb"), ["--train none.aa: no such file"]),
        (("--train", "t.aa", "t.bb", "t.bb"), ["--train: takes one file or two, not 3"]),
        (("--train", "t.aa"), ["name the languages with --pair SRC-TGT"]),
        (("--train", "t.aa", "t.aa"), ["name the languages with --pair"]),
        (("--train", "t.aa", "t.bb", "--pair", "aa"), ["name the languages with --pair"]),
        (("--train", "t.aa", "t.bb", "--copies", "all"), ["--copies all: must be drop or keep"]),
        (("--train", "t.aa", "t.bb", "--task", "nonsense"), ["--task nonsense: must be"]),
        (("--train", "t.aa", "t.bb", "--patience", "0"), ["--patience 0"]),
        (("--train", "t.aa", "t.bb", "--tokenizer", "x"), ["--tokenizer x: must be none or moses"]),
        (("--train", "t.aa", "t.bb", "--mix-old"), ["--mix-old", "--init-from BUNDLE"]),
        (("--train", "t.aa", "t.bb", "--mix-ratio", "2"), ["--mix-ratio 2: goes with --mix-old"]),
        (
            ("--train", "t.aa", "t.bb", "--test", "t.aa", "t.bb", "--test-size", "9"),
            ["--test-size 9: leave it out with --test"],
        ),
        (("--train", "t.aa", "t.bb", "--init-from", "."), ["--init-from .: no bundle"]),
        (("--train", "t.aa", "t.bb", "--nonsense", "1"), ["--nonsense: no option"]),
        (("--train", "t.aa", "--task", "lm", "--pair", "aa-bb"), ["a language model has no pair"]),
        (("--train", "t.aa", "t.bb", "--task", "lm"), ["takes one file each"]),
        (("--train", "t.aa", "--task", "lm", "--batch-order", "fairseq"), ["--batch-order: no"]),
    ],
)
def test_mistakes_in_the_options(tmp_path, flags, parts):
    write_pairs(tmp_path, 30)
    done = run_bash(RECIPE, "--dry-run", "--cpu", *flags, cwd=tmp_path)
    assert_one_line_error(done, "own_text: error: ", *parts)


def write_bundle(folder: Path, settings: Settings | TextSettings, model: dict) -> Path:
    """A bundle as far as a dry run reads it."""
    folder.mkdir()
    (folder / "preprocessing.json").write_text(settings.to_json())
    torch.save({"cfg": {"model": model}, "model": {}}, folder / "model.pt")
    for name in ("dict.aa.txt", "dict.bb.txt", "codes"):
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(("beam", "expected"), [(7, "7"), (None, "4")])
def test_both_models_translate_with_the_bundles_beam(tmp_path, beam, expected):
    """`vaswani translate` takes it by itself for the scores before the fine-tuning."""
    settings = Settings("aa", "bb", False, False, "none", "sentencepiece", codes="codes", beam=beam)
    bundle = write_bundle(tmp_path / "bundle", settings, {"_name": "vaswani_tiny"})
    train = ("--train", *write_pairs(tmp_path, 2000))
    done = dry_run(*train, "--init-from", bundle, "--work", tmp_path / "w")
    assert flags_of(done, "fairseq-generate")["--beam"] == expected
    assert not (tmp_path / "w").exists()
    assert f" beam={expected}\n" in done.stderr


@pytest.mark.parametrize(
    ("arch", "expected", "other"),
    [
        ("vaswani_lm_lstm_tiny", "--carry-state", "--context-window"),
        ("vaswani_lm_tiny", "--context-window 128", "--carry-state"),
    ],
)
def test_both_language_models_read_the_same_context(tmp_path, arch, expected, other):
    text, old = write_pairs(tmp_path, 2000)
    bundle = write_bundle(tmp_path / "bundle", TextSettings("bpe", "codes"), {"_name": arch})
    flags = ("--train", text, "--old-test", old, "--init-from", bundle, "--work", tmp_path / "w")
    done = dry_run("--task", "lm", *flags)
    assert done.returncode == 0 and not (tmp_path / "w").exists(), done.stderr
    measured = [line for line in done.stderr.split("\n") if line.startswith("+ vaswani lm ")]
    assert len(measured) == 4
    assert all(expected in line and other not in line for line in measured)


def test_a_bundle_of_other_languages(finished, corpus, tmp_path):
    flags = ("--init-from", finished[1] / "model")
    done = dry_run("--train", corpus / "new.en", corpus / "new.ed", "--pair", "en-ed", *flags)
    assert_one_line_error(done, "translates ed-en, the text is en-ed")
    done = dry_run("--train", corpus / "new.ed", corpus / "new.en", "--vocabulary", 50, *flags)
    assert_one_line_error(done, "the model has its tokenizer, vocabulary and architecture")


def test_bad_text_ends_with_a_line_that_names_place_and_remedy(tmp_path):
    files = write_pairs(tmp_path, 30)
    done = run_recipe(tmp_path / "w", "--train", *files)
    assert done.returncode == 1
    said = [line for line in done.stderr.split("\n") if line.startswith("own_text.py: error: ")]
    assert len(said) == 1 and f"{files[0]}:1: the same text on both sides" in said[0]
    assert "give two different files" in said[0]
    assert "Traceback" not in done.stderr and not (tmp_path / "w" / "result.json").exists()


def test_the_names_of_files(tmp_path):
    """Languages by endings, by a table's name, in a data folder."""
    (tmp_path / "a.de.gz").write_bytes(gzip.compress(b"x\n"))
    for name in ("a.hsb", "x.de-hsb.tsv"):
        (tmp_path / name).write_bytes(b"x\n")
    for name in ("train.de", "train.hsb", "valid.de", "valid.hsb"):
        (tmp_path / name).write_text("x\n")
    for flags in (
        ("--train", "a.hsb", "a.de.gz", "--pair", "de-hsb"),
        ("--train=a.de.gz", "a.hsb"),
        ("--train", "x.de-hsb.tsv"),
        ("--data", ".", "--pair", "de-hsb"),
    ):
        done = run_bash(RECIPE, "--dry-run", "--cpu", "--work", "w", *flags, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert flags_of(done, "binarize.py")["--pair"] == "de-hsb"
    assert flags_of(done, "own_text.py")["--valid"].endswith("valid.de")
