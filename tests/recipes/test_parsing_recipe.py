"""parsing.sh at --scale tiny: from end to end with mixed corpora, and all layouts of its data."""

import gzip
import json
from pathlib import Path

import preloaded
import pytest
import toy_text
from parsing_scores import with_tags

from tests.support.scripts import ROOT, assert_one_line_error, run_bash, stages_run
from vaswani_plugin.text.linearization import linearize
from vaswani_plugin.text.trees import leaves, parse_tree, to_line

STAGES = "fetch clean code train average bundle parse evalb".split()
TREES = toy_text.toy_lines(toy_text.TREES, 30)


def run_recipe(work: Path, *args: object):
    """Runs the recipe; returns the process."""
    script = ROOT / "recipes" / "parsing.sh"
    return run_bash(script, "--scale", "tiny", "--cpu", "--work", work, *args)


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_a_parser_from_nothing_with_parsed_trees_beside(tmp_path):
    work, also = tmp_path / "w k", tmp_path / "parsed.ptb.gz"
    pretty = "".join(f"{tree.replace(' (VP', chr(10) + '  (VP-X')}\n\n" for tree in TREES)
    also.write_bytes(gzip.compress(pretty.encode()))
    flags = ("--also", also, "--ratio", 3, "--scored", "both")
    flags += ("--train-trees", 200, "--scored-trees", 25)
    done = run_recipe(work, *flags)
    assert stages_run(done) == STAGES
    assert "loaded 200 examples" in done.stdout and "loaded 30 examples" in done.stdout
    assert "1,030" not in done.stderr
    result = json.loads((work / "result.json").read_text())
    assert (result["recipe"], result["arch"]) == ("parsing", "vaswani_parser_debug")
    assert result["updates"] == 20 and result["f1"]["all"]["valid_sentence"] == 25
    assert result["f1"]["all"]["error_sentence"] == result["f1"]["without_tree"] == 0
    assert 80 > result["f1"]["right_branching_f1"] > 0
    assert [entry["lines"] for entry in result["data"]] == [200, 25, 25, 30]
    right, found = (lines_of(work / kind / "valid.trees") for kind in ("trees", "output"))
    tagged = [
        with_tags(parse_tree(tree), parse_tree(gold))
        for tree, gold in zip(found, right, strict=True)
    ]
    (tmp_path / "tagged").write_text("".join(f"{to_line(tree)}\n" for tree in tagged))
    files = (work / "trees" / "valid.trees", tmp_path / "tagged")
    scored = preloaded.run(
        *("-m", "vaswani_plugin.cli", "evalb", *files, "--summary", "--format", "json"),
        capture_output=True,
    )
    summary = json.loads(scored.stdout)["all"]
    assert result["f1"]["valid"]["bracketing_fmeasure"] == summary["bracketing_fmeasure"]
    for path in result["paths"].values():
        assert (work / path).is_dir()
    assert lines_of(work / "trees" / "also.trees") == TREES
    gold, parsed = lines_of(work / "trees" / "test.trees"), lines_of(work / "output" / "test.trees")
    for right, found in zip(gold, parsed, strict=True):
        words = [[leaf.word for leaf in leaves(parse_tree(tree))] for tree in (right, found)]
        assert words[0] == words[1]
    assert "labelled F1" in done.stdout
    last = done.stdout.strip().split("\n")[-1]
    title = "parsing made-up sentences, test, first 25 trees, trained on the first 200: "
    assert last.startswith(title) and "malformed" in last
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*") if path.is_file()}
    assert stages_run(run_recipe(work, *flags)) == []
    assert before == {path: path.stat().st_mtime_ns for path in before}


def clean(folder: Path, *flags: object) -> Path:
    """The folder of the cleaned trees."""
    done = run_recipe(folder / "work", "--data", folder, "--stop-stage", "clean", *flags)
    assert done.returncode == 0, done.stderr
    return folder / "work" / "trees"


RAW = "( (S (NP-SBJ-1 (DT the) (NN {})) (VP (VBZ is) (NP (-NONE- *T*)))) )"
CLEAN = "(TOP (S (NP (DT the) (NN {})) (VP (VBZ is))))"


@pytest.mark.parametrize("ending", ["mrg", "mrg.gz", "ptb.gz", "trees"])
def test_files_of_each_split(tmp_path, ending):
    for split in ("train", "valid", "test"):
        content = f"{RAW.format(split)}\n".encode() * 2
        path = tmp_path / f"{split}.{ending}"
        path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    trees = clean(tmp_path)
    for split in ("train", "valid", "test"):
        assert lines_of(trees / f"{split}.trees") == [CLEAN.format(split)] * 2


@pytest.mark.parametrize("place", [".", "parsed/mrg/wsj"])
def test_the_penn_treebanks_sections(tmp_path, place):
    for section in range(25):
        folder = tmp_path / place / f"{section:02}"
        folder.mkdir(parents=True)
        (folder / f"wsj_{section:02}00.mrg").write_text(f"\n{RAW.format(f's{section}')}\n")
    trees = clean(tmp_path)
    sections = {"train": range(2, 22), "valid": [22], "test": [23]}
    for split, numbers in sections.items():
        expected = [CLEAN.format(f"s{number}") for number in numbers]
        assert lines_of(trees / f"{split}.trees") == expected


def test_options_reach_the_commands(tmp_path):
    flags = ("--coding", "words", "--threshold", 3, "--symbols", "XX", "--closings", "plain")
    done = run_recipe(tmp_path / "w", "--dry-run", *flags, "--dropout", 0.3)
    assert done.returncode == 0, done.stderr
    assert "--coding words --threshold 3 --one-placeholder --plain-closings" in done.stderr
    assert "--dropout 0.3" in done.stderr and "--upsample-primary 1" in done.stderr
    assert not (tmp_path / "w").exists()


def test_the_setting_of_section_6_3(tmp_path):
    trees = tmp_path / "also.trees"
    for path in (trees, *(tmp_path / f"{split}.trees" for split in ("train", "valid", "test"))):
        path.touch()
    script = ROOT / "recipes" / "parsing.sh"
    flags = ["--dry-run", "--cpu", "--data", tmp_path, "--setting", "paper"]
    alone, also, longer = (
        run_bash(script, *flags, *more).stderr
        for more in ([], ["--also", trees], ["--operations", 500, "--warmup-updates", 9])
    )
    assert "--operations 16000" in alone and "--operations 32000" in also
    for said in ("--arch vaswani_parser ", "--warmup-updates 4000", "--update-freq 8"):
        assert said in alone
    assert "output/valid.trees" in alone and "--valid-gold" in alone
    assert "--max-tokens 4096" in alone and "--lr-factor 1.0" in alone
    assert "--save-interval-updates 1500 --keep-interval-updates 5" in alone
    assert "--operations 500" in longer and "--warmup-updates 9" in longer
    assert_one_line_error(run_bash(script, "--setting", "mine"), "--setting mine: must be paper")


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("--ratio", 2), ("--ratio 2", "--also FILE")),
        (("--also", "absent"), ("--also", "no such file")),
        (("--coding", "chars"), ("--coding chars", "bpe words")),
        (("--symbols", "tag"), ("--symbols tag", "tags XX")),
        (("--closings", "no"), ("--closings no",)),
        (("--scored", "train"), ("--scored train", "test both")),
        (("--train-trees", "x"), ("--train-trees x",)),
        (("--scored-trees", "0"), ("--scored-trees 0",)),
        (("--batch-order", "fairseq"), ("--batch-order: no option",)),
        (("--data", ROOT / "docs"), ("train.mrg is missing",)),
    ],
)
def test_options_that_do_not_fit(tmp_path, flags, parts):
    done = run_recipe(tmp_path / "w", *flags)
    errors = [line for line in done.stderr.split("\n") if line.startswith("parsing: error: ")]
    done.stderr = errors[0]  # below it, where a stage had begun: that it ended
    assert_one_line_error(done, *parts)


def test_every_toy_tree_is_linearized_within_the_papers_limit():
    for tree in map(parse_tree, TREES):
        words, symbols = linearize(tree)
        assert len(symbols) <= len(words) + 300
