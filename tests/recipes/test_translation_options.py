"""The options of the translation recipes, by their help and by dry runs: nothing is run."""

import re
import shlex

import pytest

from tests.support.scripts import ROOT, assert_one_line_error, run_bash

RECIPES = ["quickstart", "multi30k", "wmt14_en_de", "wmt14_en_fr", "iwslt14_de_en", "tatoeba"]


def dry_run(name: str, *args: object):
    """The recipe with --dry-run; returns the process."""
    return run_bash(ROOT / "recipes" / f"{name}.sh", "--dry-run", "--work", "/no/such/work", *args)


def commands(done) -> list[list[str]]:
    """The commands of a dry run, split into words."""
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.split("\n") if line.startswith("+ ")]
    return [shlex.split(line[2:]) for line in lines]


def flags_of(done, program: str) -> dict[str, str]:
    """Flag: value of the only command that begins with `program`."""
    (words,) = [words for words in commands(done) if words[0] == program]
    named = [n for n, word in enumerate(words) if word.startswith("--")]
    return {words[n]: words[n + 1] for n in named if n + 1 < len(words)}


@pytest.mark.parametrize("name", RECIPES)
def test_help(name):
    done = run_bash(ROOT / "recipes" / f"{name}.sh", "--help")
    assert done.returncode == 0
    words = ("Batch:", "Expected", "--max-update", "--stop-stage", "translate score bundle")
    for word in (f"bash recipes/{name}.sh", *words):
        assert word in done.stdout


@pytest.mark.parametrize("name", RECIPES)
def test_dry_run_names_every_step_and_writes_nothing(name, tmp_path):
    work = tmp_path / "w k"
    done = dry_run(name, "--cpu", "--work", work)
    programs = {words[0] for words in commands(done)}
    assert {"fairseq-train", "vaswani", "fairseq-generate", "python"} <= programs
    scripts = {words[1].rsplit("/", 1)[-1] for words in commands(done) if words[0] == "python"}
    assert {"check_corpus.py", "binarize.py", "bundle.py", "hypotheses.py"} <= scripts
    assert ("fetch.py" in scripts) == (name != "quickstart")
    assert not work.exists()


# Section 5 of the paper; of the batch's 8 x 4,096 padded tokens 8 x 3,125 are real.
@pytest.mark.parametrize("name", ["wmt14_en_de", "wmt14_en_fr"])
@pytest.mark.parametrize(
    ("arch", "updates", "interval", "average"),
    [
        (None, "100000", "1500", "5"),
        ("vaswani_big", "300000", "600", "20"),
        ("vaswani_big_en_fr", "300000", "600", "20"),
        ("vaswani_c_n2", "100000", "1500", "5"),
    ],
)
def test_the_training_of_the_paper(name, arch, updates, interval, average):
    done = dry_run(name, "--cpu", *(["--arch", arch] if arch else []))
    train = flags_of(done, "fairseq-train")
    assert train["--arch"] == (arch or "vaswani_base")
    assert (train["--max-update"], train["--warmup-updates"]) == (updates, "4000")
    assert train["--lr-factor"] == "1.0" and "--dropout" not in train
    assert train["--save-interval-updates"] == interval
    assert train["--keep-interval-updates"] == average
    assert int(train["--max-tokens"]) * int(train["--update-freq"]) == 8 * 4096
    assert int(train["--real-tokens"]) * int(train["--update-freq"]) == 25_000
    (averaging,) = [words for words in commands(done) if words[:2] == ["vaswani", "average"]]
    assert averaging[averaging.index("--last-updates") + 1] == average
    assert flags_of(done, "fairseq-generate")["--beam"] == "4"


def test_a_given_budget_is_taken_as_it_is():
    train = flags_of(dry_run("wmt14_en_de", "--cpu", "--max-tokens", 4096), "fairseq-train")
    assert train["--max-tokens"] == "4096" and "--real-tokens" not in train
    assert "--real-tokens" not in flags_of(dry_run("multi30k", "--cpu"), "fairseq-train")


# The paper: 4.5M pairs of EN-DE, which is all there are, and 36M of EN-FR's 41M.
@pytest.mark.parametrize(("name", "ratio"), [("wmt14_en_de", "inf"), ("wmt14_en_fr", "1.5")])
def test_pairs_of_unequal_length(name, ratio):
    cleaning = [words for words in commands(dry_run(name, "--cpu")) if "--max-ratio" in words]
    (words,) = cleaning
    assert words[words.index("--max-ratio") + 1] == ratio


def test_an_option_wins_over_the_paper():
    done = dry_run(
        "wmt14_en_de", "--cpu", "--max-update", 7, "--save-interval-updates", 3,
        "--update-freq", 2, "--padding-factor", 8192,
    )  # fmt: skip
    train = flags_of(done, "fairseq-train")
    assert (train["--max-update"], train["--update-freq"]) == ("7", "2")
    assert train["--save-interval-updates"] == "3"
    (binarize,) = [words for words in commands(done) if words[1].endswith("binarize.py")]
    assert binarize[binarize.index("--padding-factor") + 1] == "8192"


def test_a_part_of_the_training_set(tmp_path):
    done = dry_run("multi30k", "--cpu", "--train-pairs", 7250)
    cuts = [words for words in commands(done) if words[1].endswith("first_lines.py")]
    assert {(w[2], "train." in w[3]) for w in cuts} == {("7250", True), ("0", False)}
    assert len(cuts) == 6
    assert_one_line_error(dry_run("multi30k", "--train-pairs", "x"), "--train-pairs x: must be")
    flags = ("--cpu", "--scale", "tiny", "--train-pairs", 900)
    for split in ("train", "val", "test_2016_flickr"):
        for language in ("en", "de"):
            (tmp_path / f"{split}.{language}").touch()
    done = dry_run("multi30k", *flags, "--data", tmp_path)
    cuts = [words for words in commands(done) if words[1].endswith("first_lines.py")]
    assert {(w[2], "train." in w[3]) for w in cuts} == {("900", True), ("60", False)}
    assert " --train 900 --valid 30 " in dry_run("multi30k", *flags).stderr  # made here
    done = dry_run("table3", "--cpu", "--scale", "tiny", "--train-pairs", 7250)
    assert "multi30k.sh --pair en-de --train-pairs 7250" in done.stderr
    assert_one_line_error(
        dry_run("section5", "--corpus", "tatoeba", "--train-pairs", 9),
        "--train-pairs 9: only for --corpus multi30k",
    )


def test_the_number_of_merges():
    for recipe in ("multi30k", "tatoeba"):
        learn = next(
            words
            for words in commands(dry_run(recipe, "--cpu", "--operations", 2500))
            if words[1].endswith("bpe.py") and words[2] == "learn"
        )
        assert learn[learn.index("--operations") + 1] == "2500"
        message = "--operations 0: must be"
        assert_one_line_error(dry_run(recipe, "--operations", 0), message)
    done = dry_run("table3", "--cpu", "--corpus", "tatoeba", "--operations", 2500)
    assert "tatoeba.sh --pair en-de --operations 2500" in done.stderr
    assert_one_line_error(
        dry_run("table3", "--corpus", "quickstart", "--operations", 2500),
        "--operations 2500: only for --corpus multi30k and tatoeba",
    )


def test_bpe_dropout():
    """Of the training text alone; the checkpoints that are averaged no longer end epochs."""
    done = dry_run("multi30k", "--cpu", "--bpe-dropout", 0.1)
    applied = [words for words in commands(done) if words[2:3] == ["apply"]]
    dropped = [words for words in applied if "--dropout" in words]
    assert len(dropped) == 2 * 10 and len(applied) == len(dropped) + 2 * 2
    assert all("/tok/train." in words[words.index("--input") + 1] for words in dropped)
    assert [words[-3:] for words in dropped[:2]] == [["0.1", "--seed", n] for n in "12"]
    train = flags_of(done, "fairseq-train")
    assert (train["--save-interval-updates"], train["--keep-interval-updates"]) == ("80", "10")
    assert " --last-updates 10 " in done.stderr
    for given in (0, 1, "x"):
        done = dry_run("multi30k", "--bpe-dropout", given)
        assert_one_line_error(done, f"--bpe-dropout {given}: must be")
    done = dry_run("wmt14_en_fr", "--bpe-dropout", 0.1)
    assert_one_line_error(done, "--bpe-dropout 0.1: this recipe splits text into word pieces")


def test_the_order_of_batches():
    """The default is the task's own."""
    assert "--batch-order" not in flags_of(dry_run("multi30k", "--cpu"), "fairseq-train")
    done = dry_run("multi30k", "--cpu", "--batch-order", "longer-side")
    assert flags_of(done, "fairseq-train")["--batch-order"] == "longer-side"
    assert_one_line_error(
        dry_run("multi30k", "--batch-order", "random"),
        "--batch-order random: must be fairseq or longer-side",
    )


@pytest.mark.parametrize(("gpus", "frequency"), [(1, "8"), (2, "4"), (8, "1")])
def test_the_batch_is_the_same_on_fewer_gpus(gpus, frequency):
    assert flags_of(dry_run("wmt14_en_de", "--gpus", gpus), "fairseq-train")["--update-freq"] == (
        frequency
    )


def test_checkpoints_have_an_interval():
    script = ROOT / "recipes" / "wmt14_en_de.sh"
    done = run_bash(script, "--dry-run", "--cpu", "--save-interval-updates", 0)
    assert_one_line_error(done, "--save-interval-updates 0", "from 1 on")


@pytest.mark.parametrize("name", ["table3", "section5"])
def test_the_last_device_counts(name):
    script = ROOT / "recipes" / f"{name}.sh"
    done = run_bash(script, "--dry-run", "--scale", "tiny", "--gpus", 2, "--cpu")
    assert done.returncode == 0, done.stderr
    assert re.search(r"--gpus(-each)? 0", done.stderr), done.stderr


def test_gpus_that_cannot_share_the_batch():
    done = dry_run("wmt14_en_de", "--gpus", 3)
    assert_one_line_error(done, "--gpus 3", "--update-freq")
    done = dry_run("wmt14_en_de", "--gpus", 3, "--update-freq", 3)
    assert flags_of(done, "fairseq-train")["--update-freq"] == "3"
    # Without a batch of the paper's to keep, more GPUs make a larger one.
    assert flags_of(dry_run("multi30k", "--gpus", 3), "fairseq-train")["--update-freq"] == "1"


def test_the_published_addresses():
    addresses = {
        word
        for name in ("wmt14_en_de", "wmt14_en_fr")
        for words in commands(dry_run(name, "--cpu", "--stop-stage", "fetch"))
        for word in words
        if word.startswith("http://")
    }
    # http://www.statmt.org/wmt14/translation-task.html, "Download"
    assert addresses == {
        "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz",
        "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
        "http://www.statmt.org/wmt13/training-parallel-un.tgz",
        "http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz",
        "http://www.statmt.org/wmt10/training-giga-fren.tar",
        "http://www.statmt.org/wmt14/dev.tgz",
        "http://www.statmt.org/wmt14/test-full.tgz",
    }


@pytest.mark.parametrize(
    ("names", "folder"),
    [
        (["train.en.gz", "newstest2013.en.gz", "newstest2014.en.gz"], "en-de"),
        (["train.en", "valid.en", "test.en"], "."),
        (["train.en.gz", "newstest2013.en", "test.en"], "de-en"),
    ],
)
def test_text_of_wmt_under_several_names(tmp_path, names, folder):
    place = tmp_path / folder
    place.mkdir(exist_ok=True)
    for name in names:
        (place / name).touch()
        (place / name.replace(".en", ".de")).touch()
    done = dry_run("wmt14_en_de", "--cpu", "--data", tmp_path, "--stop-stage", "unpack")
    read = [words[-3] for words in commands(done)]  # before `> FILE`
    assert read == [
        f"{place.resolve()}/{name}" for n in names for name in (n, n.replace(".en", ".de"))
    ]


@pytest.mark.parametrize(
    ("name", "args", "part"),
    [
        ("multi30k", ["--pair", "en-xx"], "--pair en-xx"),
        ("tatoeba", ["--pair", "de-fr"], "--pair de-fr"),
        ("multi30k", ["--preprocessing", "none"], "--preprocessing none"),
        ("multi30k", ["--max-update", "0"], "--max-update 0"),
        ("multi30k", ["--lr-factor", "fast"], "--lr-factor fast"),
        ("wmt14_en_de", ["--update-freq", "x"], "--update-freq x"),
        ("wmt14_en_de", ["--padding-factor", "0"], "--padding-factor 0"),
        ("iwslt14_de_en", ["--pair", "en-de"], "--pair: no option"),
        ("quickstart", ["--arch", "a b"], "--arch a b"),
    ],
)
def test_mistaken_options(name, args, part):
    assert_one_line_error(dry_run(name, "--cpu", *args), part)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("wmt14_en_de", ["train.en.gz is missing", "training-parallel-nc-v9.tgz", ".de"]),
        ("tatoeba", ["train.en.gz is missing", "deu-eng.zip"]),
        ("multi30k", ["train.en.gz is missing"]),
    ],
)
def test_a_folder_without_the_data(name, parts, tmp_path):
    done = dry_run(name, "--cpu", "--data", tmp_path)
    assert done.returncode != 0
    last = done.stderr.strip().split("\n")[-1]
    assert last.startswith(f"{name}: error: --data {tmp_path}: ")
    assert all(part in last for part in parts)


def test_all_archives_are_needed(tmp_path):
    (tmp_path / "dev.tgz").touch()
    done = dry_run("wmt14_en_de", "--cpu", "--data", tmp_path)
    assert "training-parallel-europarl-v7.tgz is missing" in done.stderr and done.returncode != 0


def test_preprocessing_of_multi30k():
    for preprocessing, lowercase in (("paper", True), ("cased", False)):
        done = dry_run("multi30k", "--cpu", "--preprocessing", preprocessing)
        tokenizing = [words for words in commands(done) if "--detokenize" not in words]
        tokenizing = [words for words in tokenizing if words[1].endswith("normalize_tokenize.py")]
        assert len(tokenizing) == 6
        assert all(("--lowercase" in words) == lowercase for words in tokenizing)
        assert all(("--no-normalize" in words) != lowercase for words in tokenizing)
        scoring = [words for words in commands(done) if words[:2] == ["vaswani", "bleu"]]
        assert ("--lowercase" in scoring[-1]) == lowercase
        assert flags_of(done, "fairseq-generate")["--beam"] == ("5" if lowercase else "4")
        (bundling,) = [words for words in commands(done) if words[1].endswith("bundle.py")]
        assert f"lowercase={str(lowercase).lower()}" in bundling
