"""What recipes/parsing.sh scores, and its baseline."""

import json
import sys

import pytest
import toy_text

from tests.conftest import REPO

sys.path.insert(0, str(REPO / "recipes" / "lib"))

import parsing_scores  # noqa: E402

from vaswani_plugin.cli.__main__ import main  # noqa: E402
from vaswani_plugin.errors import UserError  # noqa: E402
from vaswani_plugin.text.trees import Tree, parse_tree, to_line  # noqa: E402

TREES = [parse_tree(line) for line in toy_text.toy_lines(toy_text.TREES, 90)]
TRAIN = TREES[:60]
GOLD = [
    "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))",
    "(TOP (S (NP (PRP it)) (VP (VBZ sees) (NP (DT a) (NN cat)))))",
]


def test_right_branching():
    tree = parse_tree("(TOP (X (NP (A a) (B b)) (C c) (D d)))")
    found = to_line(parsing_scores.right_branching(tree, "S", "NP"))
    assert found == "(TOP (S (A a) (NP (B b) (NP (C c) (D d)))))"
    for line, expected in (("(TOP (A a))", "(TOP (S (A a)))"), ("(TOP (A a) (B b))", None)):
        found = to_line(parsing_scores.right_branching(parse_tree(line), "S", "NP"))
        assert found == (expected or "(TOP (S (A a) (B b)))")
    assert parsing_scores.commonest_labels(TREES) == ("S", "NP")


@pytest.fixture
def report(tmp_path, monkeypatch, capsys):
    """Runs the script in this process on parsed lines; returns what it printed."""

    def run(parsed: list[str], unconstrained: list[str], train: list[Tree] = TRAIN) -> dict:
        contents = {"gold": GOLD, "parsed": parsed, "unconstrained": unconstrained}
        contents["train"] = [to_line(tree) for tree in train]
        args = ["parsing_scores.py", "--tagged", str(tmp_path / "tagged")]
        for name, lines in contents.items():
            (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
            args += [f"--{name}", str(tmp_path / name)]
        monkeypatch.setattr("sys.argv", args)
        parsing_scores.main()
        return json.loads(capsys.readouterr().out)

    return run


def test_the_report(report, tmp_path, capsys):
    """Counted by hand: punctuation is left out by its gold tag, TOP is no bracket."""
    wrong_tags = GOLD[0].replace("(. .)", "(NN .)")
    one_wrong = "(TOP (S (NP (PRP it)) (VP (VBZ sees) (XP (DT a) (NN cat)))))"
    found = report([wrong_tags, one_wrong], [GOLD[0], ""])
    # 3 + 4 brackets, one of them with another label.
    assert found["all"]["bracketing_fmeasure"] == pytest.approx(100 * 6 / 7)
    assert found["all"]["error_sentence"] == found["without_tree"] == 0
    assert found["len_40"] == found["all"]
    assert (tmp_path / "tagged").read_text() == f"{GOLD[0]}\n{one_wrong}\n"
    main(["evalb", str(tmp_path / "gold"), str(tmp_path / "tagged"), "--format", "json"])
    assert json.loads(capsys.readouterr().out) == {key: found[key] for key in ("all", "len_40")}
    assert found["malformed_percent"] == 50 and found["unconstrained_f1"] == 100
    # (S the (NP dog (NP barks .))): S alone is right; (S it (NP sees (NP a cat))): S, NP.
    assert found["right_branching_f1"] == pytest.approx(100 * 2 * 3 / (7 + 6))


def test_files_that_do_not_fit(report):
    with pytest.raises(UserError, match="parsed: 1 lines for 2 gold trees"):
        report(GOLD[:1], GOLD)
    with pytest.raises(UserError, match="parsed:2: the gold tree has other words"):
        report([GOLD[0], GOLD[0]], GOLD)
