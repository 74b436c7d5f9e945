"""Every recipe from end to end at --scale tiny, in folders with blanks in the names."""

import gzip
import io
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
from split_groups import loose_key

from tests.conftest import REPO
from tests.support.recipes import own, result_of, run_recipe
from tests.support.scripts import quick_environment, run_bash
from tests.support.toy_text import FOLDER, toy_lines, write_toy
from vaswani_plugin import Translator

REAL_DATA = Path(os.environ.get("VASWANI_DATA", REPO.parent / "shared" / "data"))
REAL = {"multi30k": "multi30k", "tatoeba": "tatoeba-en-de", "lm": "wikitext-2"}
REAL["parsing"] = "craft-treebank"
Text = dict[str, list[str]]  # "train.en": lines


def toy_text(folder: Path, language: str, train: int = 300) -> Text:
    """The lines of a toy corpus, English and `language`, by split and language."""
    write_toy(folder, language, train=train, valid=30, test=30)
    return {p.name: p.read_text(encoding="utf-8").split("\n")[:-1] for p in folder.iterdir()}


def plain(lines: list[str]) -> bytes:
    """A member of plain text."""
    return "".join(line + "\n" for line in lines).encode()


def sgm(lines: list[str]) -> bytes:
    """A test set as IWSLT wraps it, in one document."""
    segments = "".join(
        f'<seg id="{n}"> {line.replace("&", "&amp;")} </seg>\n' for n, line in enumerate(lines, 1)
    )
    body = f'<doc sysid="x" docid="d" genre="news">\n<p>\n{segments}</p>\n</doc>\n'
    return f'<refset setid="t" srclang="any">\n{body}</refset>\n'.encode()


def iwslt(folder: Path) -> tuple:
    """de-en.tgz: tagged training text, the test set in five parts."""
    members, text = {}, toy_text(folder / "text", "de")
    for lang in ("de", "en"):
        head = ["<url>http://x</url>", "<keywords>talks, x</keywords>", "<title>A title</title>"]
        members[f"de-en/train.tags.de-en.{lang}"] = plain(head + text[f"train.{lang}"])
        sets = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
        for number, name in enumerate(sets):
            part = text[f"test.{lang}"][6 * number : 6 * number + 6]
            members[f"de-en/IWSLT14.{name}.de-en.{lang}.xml"] = sgm(part)
    with tarfile.open(folder / "de-en.tgz", "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return ("--data", folder)


def tatoeba(folder: Path) -> tuple:
    """deu-eng.zip: one table, with some pairs that have several translations."""
    text = toy_text(folder / "text", "de", train=5000)
    rows, source = [], "CC-BY 2.0 (France) Attribution: tatoeba.org #1"
    for split in ("train", "valid", "test"):
        pairs = zip(text[f"{split}.en"], text[f"{split}.de"], strict=True)
        rows += [f"{english}\t{german}\t{source}" for english, german in pairs]
    rows += [row.replace("\t", "\tAuch: ", 1) for row in rows[::7]]
    with zipfile.ZipFile(folder / "deu-eng.zip", "w") as archive:
        archive.writestr("deu.txt", "".join(row + "\n" for row in rows))
        archive.writestr("_about.txt", "about\n")
    return ("--data", folder)


def captions(folder: Path) -> tuple:
    """A made-up corpus under the names of Multi30k's files."""
    folder.mkdir()
    for ours, theirs in (("train", "train"), ("valid", "val"), ("test", "test_2016_flickr")):
        for language in ("en", "de"):
            lines = toy_lines(f"en-de/{ours}.{language}", 60)
            (folder / f"{theirs}.{language}.gz").write_bytes(gzip.compress(plain(lines)))
    return ("--data", folder)


CASES = dict.fromkeys(("wmt14_en_de", "wmt14_en_fr", "translation_as_completion"))
CASES |= {"own_text": own, "multi30k": captions, "iwslt14_de_en": iwslt, "tatoeba": tatoeba}
UNTIL = dict.fromkeys(("wmt14_en_fr", "multi30k", "iwslt14_de_en", "tatoeba"), "binarize")
UNTIL["translation_as_completion"] = "code"
"""After these steps the recipes do what the others do; their whole runs are slow tests."""
SLOW = {*UNTIL, "wmt14_en_de"}  # its subwords are the quickstart's


def arguments(name: str, folder: Path) -> tuple:
    make = CASES[name]
    return make(folder / "my data") if make else ()


@pytest.mark.parametrize("name", UNTIL)
def test_data_of_its_own(name, tmp_path):
    """The text that a recipe makes of its corpus has as many lines on both sides."""
    work = tmp_path / "my work"
    run_recipe(name, work, *arguments(name, tmp_path), "--until", UNTIL[name])
    assert (work / "data-bin").is_dir() and not (work / "checkpoints").exists()
    for split in ("train", "valid", "test"):
        text = {"wmt14_en_fr": "pieces", "translation_as_completion": "raw"}.get(name, "bpe")
        sides = list((work / text).glob(f"{split}.*"))
        counts = {len(path.read_bytes().split(b"\n")) - 1 for path in sides}
        assert len(sides) == 2 and len(counts) == 1 and counts.pop() > 10


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in CASES]
)
def test_translation(name, tmp_path):
    work, args = tmp_path / "my work", arguments(name, tmp_path)
    done = run_recipe(name, work, *args)
    result = result_of(work)
    assert result["recipe"] == name and 0 <= result["bleu"]["tokenized"] <= 100
    assert "tokenized BLEU" in done.stdout and "min left" in done.stderr
    if name == "own_text":
        assert "still getting better: the same command with --continue 40 goes on" in done.stdout
        assert done.stdout.split("\n")[-2].startswith("Warning: the translations")
        # Fine-tuned with fewer states than are averaged: the pieces stay.
        tuning = ("--init-from", work / "model", "--until", "average", "--", "--max-update", 3)
        run_recipe(name, tmp_path / "tuned", *args, *tuning)
        dictionaries = (tmp_path / "tuned" / "data-bin", work / "model")
        assert len({(folder / "dict.en.txt").read_bytes() for folder in dictionaries}) == 1
        assert not (tmp_path / "tuned" / "pieces.model").exists()
    lines = len((work / "test.out").read_text("utf-8").split("\n")) - 1
    assert lines == next(each["lines"] for each in result["data"] if "/test." in each["file"])


def test_quickstart(tmp_path):
    work = tmp_path / "quick start"
    (work / "raw").mkdir(parents=True)
    (work / "raw" / ".train.en.x").touch()  # of a process that was killed
    done = run_recipe("quickstart", work)
    result = result_of(work)
    expected = {"recipe": "quickstart", "arch": "vaswani_debug", "updates": 20}
    assert expected.items() <= result.items()
    assert "/." not in str(result["data"])
    assert done.stdout.count("  source  ") == done.stdout.count("  reference  ") == 10
    assert "BLEU" in done.stdout and (work / "attention.png").stat().st_size > 1000
    assert ", chrF " in done.stderr and done.stderr.count("  reference  ") % 3 == 0
    assert [line in done.stdout for line in toy_lines("en-de/test.en", 10)] == [True] * 10
    # The score is that of the bundle's own translations; a deleted bundle is made again.
    shutil.rmtree(work / "model")
    run_recipe("quickstart", work)
    translator = Translator.from_pretrained(work / "model")
    texts = (work / "raw" / "test.en").read_text("utf-8").split("\n")[:5]
    found = [each.text for each in translator.translate(texts, one_sentence=True)]
    assert found == (work / "test.out").read_text("utf-8").split("\n")[:5]


@pytest.mark.parametrize(
    ("name", "more", "key", "said"),
    [
        ("lm", ("--", "--max-update", 8), "ppl", "perplexity"),
        ("summarization", (), "rouge", "ROUGE-1"),
        ("parsing", (), "f1", "F1"),
    ],
)
def test_other_models(name, more, key, said, tmp_path):
    (tmp_path / "my work" / "logs" / "train.node1.log").mkdir(parents=True)  # of another node
    done = run_recipe(name, tmp_path / "my work", *more)
    result = result_of(tmp_path / "my work")
    assert result[key] is not None and said in done.stdout
    assert (len(result["averaged"]["inputs"]), result["averaged"]["asked"]) == (2 if more else 5, 5)
    assert ("8 updates, average of only 2 of 5 checkpoints, " in done.stdout) == bool(more)


@pytest.mark.parametrize("folder", [*(path.name for path in FOLDER.glob("en-*")), "../tatoeba"])
def test_held_out_text_is_new(folder):
    """Without regard to case and punctuation, on either side."""
    for language in {path.suffixes[0] for path in (FOLDER / folder).glob("*.gz")}:
        texts = [toy_lines(f"{folder}/{split}{language}") for split in ("train", "valid", "test")]
        keys = [set(map(loose_key, lines)) for lines in texts]
        assert len(set.union(*keys)) == sum(map(len, keys)) > 500


SPLITS = ("train", "valid", "test")
CORPORA = {
    **{"wikitext-2": "train.txt", "wikitext-103": "wiki.train.tokens", "ptb": "ptb.train.txt"},
    **{"tinyshakespeare": "input.txt", "text": "input.txt.gz"},
}


@pytest.mark.parametrize("awk", ["mawk", "gawk", "busybox"])
@pytest.mark.parametrize("corpus", CORPORA)
def test_corpora_of_language_models(corpus, awk, tmp_path):
    """One file is split into 90, 5 and 5 %, by each of the awks that there are."""
    if not shutil.which(awk):
        pytest.skip(f"needs {awk}")
    (tmp_path / "awk").symlink_to(shutil.which(awk))
    name = CORPORA[corpus]
    for split in SPLITS:
        content = "".join(f"{split} {number}\n" for number in range(100)).encode()
        path = tmp_path / name.replace("train", split)
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    work = tmp_path / "work"
    flags = ("--cpu", "--corpus", corpus, "--data", tmp_path, "--work", work)
    path = f"{tmp_path}:{quick_environment()['PATH']}"
    done = run_bash(REPO / "recipes" / "lm.sh", *flags, "--until", "text-test", PATH=path)
    assert done.returncode == 0, done.stderr
    lines = [(work / "raw" / f"{split}.txt").read_text().split("\n") for split in SPLITS]
    assert [len(each) - 1 for each in lines] == ([90, 5, 5] if "input" in name else [100] * 3)
    assert lines[2][0] == ("test 95" if "input" in name else "test 0")


def test_a_corpus_that_is_cut_off_is_not_taken(tmp_path):
    """Not for text of another split, either."""
    for split in SPLITS:
        content = gzip.compress("".join(f"{split} {n}\n" for n in range(9000)).encode())
        (tmp_path / f"{split}.txt.gz").write_bytes(content[: -9 if split == "test" else None])
    flags = ("--cpu", "--corpus", "text", "--data", tmp_path, "--work", tmp_path / "work")
    done = run_bash(REPO / "recipes" / "lm.sh", *flags, "--until", "text-test")
    assert done.returncode == 1 and "step text-test ended with exit code 1" in done.stderr


def test_a_table_of_articles_is_shortened_between_its_rows(tmp_path):
    """A summary of CNN/DailyMail has line breaks."""
    rows = "".join(f'{n},"Article {n}. More.","One {n}.\nTwo."\n' for n in range(200))
    for name in ("train", "validation", "test"):
        (tmp_path / f"{name}.csv").write_text(f"id,article,highlights\n{rows}")
    flags = ("--corpus", "cnn-dailymail", "--data", tmp_path, "--until", "summary-test")
    run_recipe("summarization", tmp_path / "work", *flags)
    assert (tmp_path / "work" / "raw" / "test.summary").read_text().count("\n") == 120


def test_sequence_to_sequence(tmp_path):
    """One seed is an ensemble of one, and rescores another system's lists."""
    work, lists, few = tmp_path / "work", tmp_path / "lists", ("--", "--max-update", 4)
    write_toy(lists, train=256, valid=40, test=40)
    for split in ("valid", "test"):
        lines = enumerate((lists / f"{split}.de").read_text(encoding="utf-8").splitlines())
        rows = [f"{n} ||| {line} ||| lm= -1 ||| {x}\n" for n, line in lines for x in (-1, -2)]
        (lists / f"{split}.nbest").write_text("".join(rows), encoding="utf-8")
    args = *"--pair en-de --seeds 1 --source-rows 200 --target-rows 200 --nbest".split(), lists
    args += "--data", lists, *few
    assert "BLEU" in run_recipe("seq2seq", work, *args).stdout
    assert {"forwards.json", "reversed.json", "ensemble.json"} < set(os.listdir(work))
    run_recipe("seq2seq", work, *"--from train-forwards --until train-forwards".split(), *args)
    assert len(list((work / "models").glob("forwards*"))) == 2, "it begins anew"


@pytest.mark.shared_data
@pytest.mark.skipif(not REAL_DATA.is_dir(), reason="needs real corpora: set VASWANI_DATA")
@pytest.mark.parametrize(("name", "folder"), REAL.items())
def test_on_real_text(name, folder, tmp_path):
    run_recipe(name, tmp_path / "work", "--data", REAL_DATA / folder)
    result_of(tmp_path / "work")
