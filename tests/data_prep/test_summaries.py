"""Articles and summaries out of every published layout, and the made-up ones."""

import json

import pytest

from tests.support.scripts import assert_one_line_error, run_script
from vaswani_plugin.errors import UserError
from vaswani_plugin.text.summaries import (
    READERS,
    Example,
    read_csv,
    read_examples,
    split_at_stops,
    write_examples,
)


def write_lines(path, records) -> str:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")
    return str(path)


def test_scitldr(tmp_path):
    record = {"source": ["One  thing.\n", " ", "Another.\u2028"], "target": ["A.", "B."], "x": 1}
    path = write_lines(tmp_path / "train.jsonl", [record])
    assert list(READERS["scitldr"](path)) == [Example(["One thing.", "Another."], ["A.", "B."])]


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("{", "not JSON"),
        ("[]", "needs 'source', a list of texts"),
        ('{"source": "text", "target": ["t"]}', "needs 'source', a list of texts"),
        ('{"source": ["text"], "target": [1]}', "needs 'target', a list of texts"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, part):
    path = tmp_path / "train.jsonl"
    path.write_text('{"source": ["a"], "target": ["b"]}\n' + line + "\n")
    with pytest.raises(UserError, match="train.jsonl:2: ") as caught:
        list(READERS["scitldr"](str(path)))
    assert part in str(caught.value)


def test_a_table_whose_fields_hold_line_breaks(tmp_path):
    path = tmp_path / "test.csv"
    text = 'id,article,highlights\r\n1,"He said: ""Go."" Then\r\nhe went.","One .\nTwo ."\r\n'
    path.write_bytes(text.encode())
    assert list(read_csv(str(path))) == [
        Example(['He said: "Go."', "Then he went."], ["One .\nTwo ."])
    ]
    for text in ("id,text\n1,a\n", "id,article,highlights\n1,a\n"):
        path.write_text(text)
        with pytest.raises(UserError, match="test.csv:2: no article or no highlights.*are id, "):
            list(read_csv(str(path)))


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("He said “No.” And left.", ["He said “No.”", "And left."]),
        ("Version 1.2 of it. e.g. this", ["Version 1.2 of it. e.g. this"]),
        ("It grew (fast.) \u00c9mile saw it.\tÄ", ["It grew (fast.)", "\u00c9mile saw it.", "Ä"]),
        ("  ", []),
    ],
)
def test_sentences(text, sentences):
    assert split_at_stops(text) == sentences


def test_what_is_written_is_read(tmp_path):
    examples = [Example(["A a.", "B."], ["s", "t"]), Example([], ["s"]), Example(["a"], [])]
    examples += [Example(["\u2028".join("cd")], ["u"])]
    written = write_examples(iter(examples), str(tmp_path / "test"))
    assert written == (2, 2)
    assert (tmp_path / "test.article").read_text("utf-8") == "A a. B.\nc\u2028d\n"
    assert (tmp_path / "test.summary").read_text("utf-8") == "s\nu\n"
    assert list(read_examples(str(tmp_path / "test.jsonl"))) == [
        examples[0], Example(["c d"], ["u"]),
    ]  # fmt: skip
    with pytest.raises(UserError, match="no example with an article and a summary"):
        write_examples(iter(examples[1:3]), str(tmp_path / "empty"))
    assert not list(tmp_path.glob("*empty*"))


def test_the_script(tmp_path):
    write_lines(tmp_path / "in.jsonl", [{"source": ["A."], "target": ["B"]}] * 3)
    flags = ("--format", "scitldr", "--input", tmp_path / "in.jsonl", "--output")
    done = run_script("data-prep/summaries.py", *flags, tmp_path / "out")
    assert done.stdout == f"{tmp_path}/out: 3 articles with summaries\n", done.stderr
    done = run_script("data-prep/summaries.py", *flags, tmp_path / "in")
    assert_one_line_error(done, "in.jsonl is an input")
