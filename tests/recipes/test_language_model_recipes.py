"""lm.sh and summarization.sh at --scale tiny: from end to end, and all layouts of their data."""

import gzip
import hashlib
import json
import os
import zipfile
from pathlib import Path

import pytest

from tests.support.scripts import ROOT, assert_one_line_error, run_bash, stages_run
from vaswani_plugin.text.pipeline import Pipeline

REAL_DATA = Path(os.environ.get("VASWANI_DATA", ROOT.parent / "shared" / "data"))
LM = "fetch unpack code train average bundle evaluate sample".split()
SUMMARIZATION = "fetch unpack code train average bundle summarize score".split()
SPLITS = ("train", "valid", "test")


def run_recipe(name: str, work: Path, *args: object, timeout: float = 900):
    """Runs a recipe at --scale tiny; returns the process."""
    script = ROOT / "recipes" / f"{name}.sh"
    return run_bash(script, "--scale", "tiny", "--cpu", "--work", work, *args, timeout=timeout)


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def check_result(work: Path, recipe: str) -> dict:
    result = json.loads((work / "result.json").read_text())
    assert (result["recipe"], result["arch"]) == (recipe, "vaswani_lm_debug")
    assert result["updates"] == 20 and result["tokens_per_second"] > 0
    assert "bleu" not in result and result["versions"]["fairseq"]
    for path in result["paths"].values():
        assert (work / path).is_dir()
    for entry in result["data"]:
        content = (work / entry["file"]).read_bytes()
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()
        assert entry["lines"] == content.count(b"\n")
    assert (work / "model" / "model.pt").read_bytes() == (work / "averaged.pt").read_bytes()
    return result


def test_a_language_model_from_nothing(tmp_path):
    work = tmp_path / "w k"
    done = run_recipe("lm", work)
    assert stages_run(done) == LM
    result = check_result(work, "lm")
    rows = {row["name"]: row for row in result["ppl"]["results"]}
    assert list(rows) == ["uniform", "unigram", "trigram", "model"]
    assert (rows["model"]["coding"], rows["model"]["unknown"]) == ("bpe", 0)
    last = done.stdout.strip().split("\n")[-1]
    assert last.startswith("lm made-up sentences, bpe, test: perplexity ")
    assert f"{rows['model']['perplexity_per_word']:.2f} a word" in last
    text = lines_of(work / "raw" / "test.txt")
    assert result["ppl"]["text"]["lines"] == len(text) == 30
    assert result["ppl"]["text"]["characters"] == sum(map(len, text))
    pipeline = Pipeline.load(work / "model")
    assert [pipeline.decode(pipeline.encode(line)) for line in text] == text
    assert lines_of(work / "output" / "sample.txt")[0].startswith("The")
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*") if path.is_file()}
    assert stages_run(run_recipe("lm", work)) == []
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_summaries_from_nothing(tmp_path):
    work = tmp_path / "w k"
    done = run_recipe("summarization", work)
    assert stages_run(done) == SUMMARIZATION
    result = check_result(work, "summarization")
    assert [system["name"] for system in result["rouge"]["systems"]] == ["lead-1", "model"]
    assert (result["rouge"]["summaries"], result["rouge"]["references"]) == (30, 60)
    assert "ROUGE-1" in done.stdout and "lead-1" in done.stdout
    assert len(lines_of(work / "output" / "test.summary")) == 30
    command = next(line for line in done.stderr.split("\n") if line.startswith("+ fairseq-train"))
    assert "--sample-break-mode eos --loss-after \\<sep\\>" in command
    settings = json.loads((work / "model" / "preprocessing.json").read_text())
    # 128 tokens a sample: the article, <sep>, the summary, </s>.
    assert (settings["article_tokens"], settings["summary_tokens"]) == (94, 32)
    dry = run_recipe("summarization", work, "--loss-on", "both", "--dry-run")
    assert "--sample-break-mode eos --arch" in dry.stderr
    assert "--loss-after" not in dry.stderr
    assert "--no-repeat-ngram-size 3" in dry.stderr
    free = run_recipe("summarization", work, "--no-repeat-ngram-size", "0", "--dry-run")
    assert "--no-repeat-ngram-size" not in free.stderr


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def unpack(recipe: str, folder: Path, *flags: object) -> Path:
    """The folder of the unpacked text."""
    work = folder / "work"
    done = run_recipe(recipe, work, "--data", folder, "--stop-stage", "unpack", *flags)
    assert done.returncode == 0, done.stderr
    return work / "raw"


WIKI = {split: f" \n = {split} = \n \n an <unk> of {split} \n" for split in SPLITS}


@pytest.mark.parametrize(
    ("corpus", "pattern"),
    [
        ("wikitext-2", "wiki.{}.tokens"),
        ("wikitext-2", "{}.txt.gz"),
        ("wikitext-103", "wikitext-103/wiki.{}.tokens"),
        ("ptb", "simple-examples/data/ptb.{}.txt"),
        ("wikitext-103", "wikitext-103-v1.zip"),
    ],
)
def test_texts_made_of_words(tmp_path, corpus, pattern):
    if pattern.endswith(".zip"):
        with zipfile.ZipFile(tmp_path / pattern, "w") as archive:
            for split in SPLITS:
                archive.writestr(f"wikitext-103/wiki.{split}.tokens", WIKI[split])
    else:
        for split in SPLITS:
            write(tmp_path / pattern.format(split), WIKI[split])
    raw = unpack("lm", tmp_path, "--corpus", corpus)
    for split in SPLITS:
        assert lines_of(raw / f"{split}.txt") == ["", f"= {split} =", "", f"an <unk> of {split}"]


def test_tinyshakespeare_is_split_by_lines(tmp_path):
    lines = [f" line {number} " for number in range(40)]
    write(tmp_path / "input.txt.gz", "".join(f"{line}\n" for line in lines))
    raw = unpack("lm", tmp_path, "--corpus", "tinyshakespeare")
    assert lines_of(raw / "train.txt") == lines[:36]
    assert lines_of(raw / "valid.txt") == lines[36:38]
    assert lines_of(raw / "test.txt") == lines[38:]


def test_any_text_stays_as_it_is(tmp_path):
    for split in SPLITS:
        write(tmp_path / f"{split}.txt", f" {split}\u2028 \n\n")
    raw = unpack("lm", tmp_path, "--corpus", "text")
    for split in SPLITS:
        assert lines_of(raw / f"{split}.txt") == [f" {split}\u2028 ", ""]


def write_stories(folder: Path, names: list[str]) -> None:
    for name in names:
        text = f"{name} happened.\n\n@highlight\n\n{name}!\n"
        write(folder / f"{hashlib.sha1(name.encode()).hexdigest()}.story", text)


@pytest.mark.parametrize("layout", ["csv", "stories", "lists", "jsonl"])
def test_layouts_of_articles(tmp_path, layout):
    names = {split: [f"{split}-{number}" for number in range(2)] for split in SPLITS}
    corpus = "scitldr" if layout == "jsonl" else "cnn-dailymail"
    for split in SPLITS:
        if layout == "csv":
            rows = "".join(f'1,"{name} happened.",{name}!\n' for name in names[split])
            file = "validation.csv" if split == "valid" else f"{split}.csv"
            write(tmp_path / file, f"id,article,highlights\n{rows}")
        elif layout == "jsonl":
            file = "dev.jsonl.gz" if split == "valid" else f"{split}.jsonl.gz"
            rows = [{"source": [f"{n} happened."], "target": [f"{n}!"]} for n in names[split]]
            write(tmp_path / file, "".join(f"{json.dumps(row)}\n" for row in rows))
        elif layout == "stories":
            write_stories(tmp_path / split, names[split])
        else:
            write_stories(tmp_path / "cnn" / "stories", names[split])
            file = "all_val.txt" if split == "valid" else f"all_{split}.txt"
            write(tmp_path / file, "".join(f"{name}\n" for name in names[split]))
    raw = unpack("summarization", tmp_path, "--corpus", corpus)
    for split in SPLITS:
        assert sorted(lines_of(raw / f"{split}.summary")) == [f"{n}!" for n in names[split]]
        articles = lines_of(raw / f"{split}.article")
        assert sorted(articles) == [f"{name} happened." for name in names[split]]


FULL_SCALE = {
    ("--corpus", "ptb"): "vaswani_lm_lstm 256 4096 1 0.9 1000 22700 --carry-state",
    ("--corpus", "ptb", "--arch", "vaswani_lm_tiny"): (
        "vaswani_lm_tiny 256 4096 1 0.9 1000 22700 --context-window 128"
    ),
    (
        "--corpus=wikitext-103",
    ): "vaswani_lm_base 512 2048 16 0.7155 4000 50000 --context-window 400",
    ("--arch=vaswani_lm_one_layer", "--lr-factor", "2"): (
        "vaswani_lm_one_layer 256 4096 1 2 1000 4000 --context-window 128"
    ),
}


@pytest.mark.parametrize("flags", FULL_SCALE, ids=" ".join)
def test_settings_of_each_corpus_at_full_scale(tmp_path, flags):
    """The model, its batch, rate and updates, and the context of its score, as the header says."""
    done = run_recipe("lm", tmp_path / "work", "--scale", "full", "--dry-run", *flags)
    assert done.returncode == 0, done.stderr
    commands = [line.split() for line in done.stderr.split("\n") if line.startswith("+")]
    train = next(words for words in commands if words[1] == "fairseq-train")
    score = next(words for words in commands if words[1:3] == ["vaswani", "lm"])
    names = "arch tokens-per-sample max-tokens update-freq lr-factor warmup-updates max-update"
    found = [train[train.index(f"--{name}") + 1] for name in names.split()]
    context = score[score.index("--tokens-per-sample") + 2 :]
    assert " ".join([*found, *context]).startswith(FULL_SCALE[flags])
    assert ("--baselines" in score) == ("wikitext-103" not in " ".join(flags))
    coded = next(words for words in commands if "--coding" in words)
    is_words = "ptb" in flags or "wikitext-103" in flags[0]
    assert coded[coded.index("--coding") + 1] == ("words" if is_words else "bpe")


def test_one_layer_without_projections(tmp_path):
    flags = ["--arch", "vaswani_lm_one_layer_tiny", "--projections", "no", "--dry-run"]
    done = run_recipe("lm", tmp_path / "work", *flags)
    assert "--arch vaswani_lm_one_layer_tiny" in done.stderr and "--no-projections" in done.stderr


def test_a_recurrent_model_from_nothing(tmp_path):
    done = run_recipe("lm", tmp_path, "--arch", "vaswani_lm_lstm_tiny")
    assert stages_run(done) == LM
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["arch"] == "vaswani_lm_lstm_tiny"
    trigram, model = result["ppl"]["results"][-2:]
    assert model["name"] == "model" and model["perplexity_per_word"] > 1
    assert trigram["training_perplexity"] < trigram["validation_perplexity"]


@pytest.mark.parametrize(
    ("recipe", "flags", "part"),
    [
        ("lm", ["--corpus", "brown"], "--corpus brown: must be wikitext-2"),
        ("lm", ["--coding", "syllables"], "--coding syllables: must be words"),
        ("lm", ["--tokens-per-sample", "0"], "--tokens-per-sample 0: must be"),
        ("lm", ["--dropout", "much"], "--dropout much: must be a number"),
        ("lm", ["--corpus", "text", "--scale", "full"], "give its folder with --data"),
        ("lm", ["--projections", "few"], "--projections few: must be yes or no"),
        ("lm", ["--projections", "no"], "--arch vaswani_lm_debug has no such choice"),
        ("lm", ["--pair", "en-de"], "--pair: no option of this recipe"),
        ("lm", ["--padding-factor", "8"], "--padding-factor: no option of this recipe"),
        ("summarization", ["--batch-order", "fairseq"], "--batch-order: no option of this recipe"),
        ("summarization", ["--corpus", "xsum"], "--corpus xsum: must be scitldr"),
        ("summarization", ["--loss-on", "nothing"], "--loss-on nothing: must be"),
        ("summarization", ["--summary-tokens", "400"], "leaves no room for an article"),
        ("summarization", ["--corpus", "cnn-dailymail", "--scale", "full"], "with --data DIR"),
    ],
)
def test_mistaken_options(tmp_path, recipe, flags, part):
    if "--summary-tokens" in flags:
        flags = [*flags, "--scale", "full"]
    assert_one_line_error(run_recipe(recipe, tmp_path / "work", *flags), part)
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize(
    ("recipe", "missing"),
    [("lm", "train.txt is missing"), ("summarization", "dev.jsonl is missing")],
)
def test_missing_files_are_named(tmp_path, recipe, missing):
    write(tmp_path / "data" / "train.jsonl", "{}\n")
    done = run_recipe(recipe, tmp_path / "work", "--data", tmp_path / "data")
    assert done.returncode != 0 and missing in done.stderr


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("recipe", "folder", "files"),
    [
        ("lm", "wikitext-2", {f"{split}.txt": f"{split}.txt" for split in SPLITS}),
        ("lm", "tinyshakespeare", {"input.txt": "input.txt"}),
        # The published files have no line end after the last line.
        ("summarization", "scitldr", {"train.jsonl": "train.jsonl", "valid.jsonl": "dev.jsonl"}),
    ],
)
def test_the_published_sums(recipe, folder, files):
    if not (REAL_DATA / folder).is_dir():
        pytest.skip(f"NOT CHECKED: no {REAL_DATA / folder} (set VASWANI_DATA to such a folder)")
    script = (ROOT / "recipes" / f"{recipe}.sh").read_text()
    for name, published in files.items():
        content = gzip.decompress((REAL_DATA / folder / f"{name}.gz").read_bytes())
        if folder == "scitldr":
            content = content.removesuffix(b"\n")
        digest = hashlib.sha256(content).hexdigest()
        assert f"{folder}/{published}) echo {digest} ;;" in script


def test_translation_as_completion(tmp_path):
    """From a translation recipe's text, whose own score stands beside; the test set stays whole."""
    work, other = tmp_path / "completed", tmp_path / "translated"
    made = run_recipe("translation_as_completion", work, "--stop-stage", "unpack")
    assert stages_run(made) == ["unpack"]
    turned = tmp_path / "turned"
    run_recipe("translation_as_completion", turned, "--pair", "de-en", "--stop-stage", "unpack")
    for split in SPLITS:
        for ending, side in (("article", "summary"), ("summary", "article")):
            here, there = (turned / "raw" / f"{split}.{ending}", work / "raw" / f"{split}.{side}")
            assert here.read_bytes() == there.read_bytes()
    (other / "raw").mkdir(parents=True)
    for split in SPLITS:
        for ending, side in (("article", "en"), ("summary", "de")):
            text = (work / "raw" / f"{split}.{ending}").read_text(encoding="utf-8")
            (other / "raw" / f"{split}.{side}").write_text(text, encoding="utf-8")
    options = ["--data", other, "--pair", "en-de"]
    done = run_recipe("translation_as_completion", tmp_path / "again", *options)
    assert stages_run(done) == "unpack code train average bundle translate score".split()
    result = json.loads((tmp_path / "again" / "result.json").read_text())
    assert result["recipe"] == "translation_as_completion" and result["updates"] == 20
    scores = json.loads((tmp_path / "again" / "output" / "bleu.json").read_text())
    assert result["bleu"] == scores
    assert len(lines_of(tmp_path / "again" / "output" / "test.target")) == 30


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (["--pair", "english"], "--pair english"),
        (["--loss-on", "source"], "--loss-on source"),
        (["--tokens-per-sample", "60", "--target-tokens", "59"], "--target-tokens"),
    ],
)
def test_mistakes_in_translation_as_completion(tmp_path, flags, part):
    script = ROOT / "recipes" / "translation_as_completion.sh"
    done = run_bash(script, "--dry-run", "--cpu", "--data", tmp_path, *flags)
    assert_one_line_error(done, part)


def test_translation_as_completion_names_a_missing_file(tmp_path):
    script = ROOT / "recipes" / "translation_as_completion.sh"
    done = run_bash(script, "--cpu", "--data", tmp_path, "--work", tmp_path / "w")
    assert done.returncode != 0 and "train.en" in done.stderr


def test_other_languages_are_unpacked_again(tmp_path):
    script = ROOT / "recipes" / "translation_as_completion.sh"
    texts = []
    for pair in ("en-de", "de-en"):
        options = ("--scale", "tiny", "--cpu", "--stop-stage", "unpack", "--pair", pair)
        done = run_bash(script, *options, "--work", tmp_path)
        assert done.returncode == 0, done.stderr
        texts.append([(tmp_path / "raw" / f"test.{x}").read_text() for x in ("article", "summary")])
    assert texts[0] == texts[1][::-1] and texts[0][0] != texts[0][1]
