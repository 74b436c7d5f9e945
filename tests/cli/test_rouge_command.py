"""`vaswani rouge`: files of either kind, the lead baseline, errors."""

import json

import pytest

from tests.support.commands import vaswani
from vaswani_plugin.metrics.rouge import rouge
from vaswani_plugin.text.summaries import Example, write_examples

EXAMPLES = [
    Example(["The mill burned.", "Nobody was hurt.", "It rained."], ["a mill burned", "fire"]),
    Example(["It rained. Then it snowed."], ["rain, then snow"]),
]
HYPOTHESES = ["a mill burned down", ""]
HYPOTHESIS = ("--hypothesis", "hypothesis")


@pytest.fixture
def folder(tmp_path):
    write_examples(iter(EXAMPLES), str(tmp_path / "test"))
    (tmp_path / "hypothesis").write_text("".join(f"{line}\n" for line in HYPOTHESES))
    (tmp_path / "other").write_text("fire\nsnow\n")
    return tmp_path


@pytest.fixture
def run(folder, monkeypatch):
    monkeypatch.chdir(folder)

    def run(*args: object) -> tuple[int, str, str]:
        done = vaswani("rouge", *args)
        return done.code, done.out, done.err

    return run


def test_a_system_beside_lead_sentences(run):
    references = [example.references for example in EXAMPLES]
    leads = {
        "lead-1": ["The mill burned.", "It rained. Then it snowed."],
        "lead-2": ["The mill burned.\nNobody was hurt.", "It rained. Then it snowed."],
    }
    code, out, _ = run(
        *("--hypothesis", "hypothesis", "--references", "test.jsonl", "--lead", 1, "--lead", 2),
        *("--format", "json"),
    )
    report = json.loads(out)
    assert code == 0
    assert (report["summaries"], report["references"], report["over"]) == (2, 3, "best")
    for system in report["systems"]:
        lines = (leads | {"model": HYPOTHESES})[system["name"]]
        words = sum(len(line.split()) for line in lines) / 2
        assert system == {"name": system["name"], "words": words} | rouge(lines, references)
    assert [system["name"] for system in report["systems"]] == ["lead-1", "lead-2", "model"]
    text = run("--references", "test.jsonl", "--lead", 1)[1]
    assert "mean of 2 summaries; the best of each one's references (3 in all)" in text


def test_files_of_references(run):
    flags = ("--hypothesis", "hypothesis", "--references", "test.summary", "other")
    flags += ("--over", "mean", "--no-stemming", "--format", "json")
    (model,) = json.loads(run(*flags)[1])["systems"]
    references = [["a mill burned", "fire"], ["rain, then snow", "snow"]]
    assert model == {"name": "model", "words": 2.0} | rouge(HYPOTHESES, references, "mean", False)


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (["--references", "test.jsonl", "other", "--lead", "1"], "give no other"),
        (["--references", "bad.jsonl", *HYPOTHESIS], "bad.jsonl:2: not JSON"),
        (["--references", "none.jsonl", *HYPOTHESIS], "summary 2 has no reference"),
    ],
)
def test_bad_input_is_one_line(run, folder, flags, part):
    good = '{"article": ["a"], "references": ["b"]}\n'
    (folder / "bad.jsonl").write_text(good + "{\n")
    (folder / "none.jsonl").write_text(good + '{"article": ["a"], "references": []}\n')
    code, out, err = run(*flags)
    assert code == 1 and not out and err.count("\n") == 1
    assert err.startswith("vaswani rouge: error: ") and part in err
