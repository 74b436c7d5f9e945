"""code_text.py beside fairseq's dictionary and reader: nothing unknown where coding is faithful."""

import os
from pathlib import Path

import code_text
import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.raw_text import composed
from vaswani_plugin.text.settings import read_settings_file

TEXT = {
    "train": ["the old bird  sat", "", " the <unk> bird saw the garden ", "a@@ nai\u0308ve </s> ?"],
    "valid": ["the bird", "sat on the garden\u2028wall"],
    "test": ["the na\u00efve \U0001f600", " a"],
}
SUMMARIES = {
    "train": [("the old bird sat in the garden", "a bird sat"), ("i\u0308s", "i\u0308s i\u0308s")],
    "valid": [("", "nothing")],
    "test": [("one two three four five six seven", "one"), ("the bird", "a")],
}


@pytest.fixture
def text(tmp_path) -> Path:
    for split, lines in TEXT.items():
        (tmp_path / split).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return tmp_path


@pytest.fixture
def summaries(tmp_path) -> Path:
    for split, pairs in SUMMARIES.items():
        for side, lines in zip(("article", "summary"), zip(*pairs, strict=True), strict=True):
            (tmp_path / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the script in this process on the splits of a folder; returns its output."""

    def run(folder: Path, *flags: object) -> str:
        args = ["code_text.py", "--output", folder / "bin", "--workers", 1]
        for split in TEXT:
            args += [f"--{split}", folder / split]
        monkeypatch.setattr("sys.argv", [*map(str, args), *map(str, flags)])
        code_text.main(code_text.Flags())
        return capsys.readouterr().out

    return run


def read_back(folder: Path, split: str) -> list[list[str]]:
    """The units of each line, its end included, by fairseq's own reader."""
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    return [[dictionary[n] for n in line] for line in MMapIndexedDataset(str(folder / split))]


@pytest.mark.parametrize("coding", ["bpe", "characters"])
def test_text_comes_back_from_the_binary_files(text, run, coding):
    output = run(text, "--coding", coding, *("--operations", 20) if coding == "bpe" else ())
    pipeline = Pipeline(read_settings_file(text / "bin" / "preprocessing.json"), text / "bin")
    for split, lines in TEXT.items():
        units = read_back(text / "bin", split)
        assert [line[-1] for line in units] == ["</s>"] * len(lines)
        if coding == "bpe" or split == "train":
            same = lines if coding == "bpe" else list(map(composed, lines))
            assert [pipeline.decode(" ".join(line[:-1])) for line in units] == same
            assert not any("<unk>" in line for line in units)
    if coding == "bpe":
        assert output.count(", 0 unknown") == 3
    else:
        known = set(composed("".join(TEXT["train"])))
        missing = sum(character not in known for character in "".join(TEXT["test"]))
        units = sum(len(line) + 1 for line in TEXT["test"])
        assert f"test: 2 lines, {units} units, {missing} unknown" in output and missing == 1


@pytest.mark.parametrize("coding", ["words", "bpe"])
def test_summaries_are_cut_and_joined(summaries, run, coding):
    flags = ("--summaries", "--article-tokens", 4, "--summary-tokens", 2)
    flags += ("--operations", 4) if coding == "bpe" else ()
    run(summaries, "--coding", coding, *flags)
    settings = read_settings_file(summaries / "bin" / "preprocessing.json")
    pipeline = Pipeline(settings, summaries / "bin")
    assert (pipeline.settings.article_tokens, pipeline.settings.summary_tokens) == (4, 2)
    known = {unit for line in read_back(summaries / "bin", "train") for unit in line}
    for split, pairs in SUMMARIES.items():
        expected = []
        for article, summary in pairs:
            units = [*pipeline.encode(article).split()[:4], "<sep>"]
            units += [*pipeline.encode(summary).split()[:2], "</s>"]
            if coding != "bpe":
                units = [unit if unit in known else "<unk>" for unit in units]
            expected.append(units)
        assert read_back(summaries / "bin", split) == expected
    if coding == "bpe":  # of both sides
        assert "\u01c3 \u01af" in (summaries / "bin" / "codes").read_text()  # composed


def test_rare_words_become_unknown(text, run):
    run(text, "--coding", "words", "--threshold", 2)
    assert read_back(text / "bin", "train")[0] == "the <unk> bird <unk> </s>".split()


def test_flags_that_do_not_fit(text, run):
    with pytest.raises(UserError, match="--summaries goes with --article-tokens N"):
        run(text, "--coding", "words", "--summaries")
    os.mkfifo(text / "pipe")
    with pytest.raises(UserError, match="pipe: a pipe can't be read twice: give a file"):
        run(text, "--coding", "bpe", "--train", text / "pipe")
    assert not (text / "bin").exists()
