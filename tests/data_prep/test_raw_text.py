"""Scripts over raw text: sentences of files with markup, Moses' tokens, summaries; a full disk."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.commands import REPO
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

SGML = b"""<srcset setid="t" srclang="any">
<DOC sysid="ref" docid="a.b/c" genre="news">
<hl>
<Seg id="1">Rock &amp; Roll &quot;x&quot; &#8211; AT&T &notice; &copy=1</SEG>
</hl>
<p>
<seg
 id="2">  spans
  two lines&#10;and&NewLine;more </seg><seg id=3></seg>
</p></DOC>
<doc docid='d'><seg id="1">\xc3\xa4</seg></doc>
</srcset>
"""
SEGMENTS = ['Rock & Roll "x" – AT&T &notice; &copy=1', "spans two lines and more", "", "ä"]
TRAINING = """<doc docid="1" genre="lectures">
<url>http://www.ted.com/talks/x</url>
<speaker>A Person</speaker>
<keywords>talks, x</keywords>
<talkid>1</talkid>
<title>A title</title>
<description>TED Talk: what &amp; why.</description>
 Thank you so much, Chris.
<reviewer href="x">Somebody</reviewer>

It's <i>really</i> great.
</doc>
"""
SENTENCES = ["A title", "TED Talk: what & why.", "Thank you so much, Chris.", ""]
SENTENCES += ["It's <i>really</i> great."]


def test_segments_and_training_text(tmp_path):
    (tmp_path / "t.sgm").write_bytes(SGML)
    (tmp_path / "train.tags.de-en.en").write_text(TRAINING)
    files = (tmp_path / "t.sgm", tmp_path / "train.tags.de-en.en")
    done = run_script("data-prep/sentences.py", *files)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == [*SEGMENTS, *SENTENCES]
    assert run_script("data-prep/sentences.py", "-", stdin=SGML).stdout.split("\n")[:-1] == SEGMENTS


TMX = """<?xml version="1.0"?><tmx><header srclang="en-US"/><body>
<tu><tuv xml:lang="en-US"><seg>The <bpt i="1">&lt;b&gt;</bpt>cat</seg></tuv>
<tuv xml:lang="de"><seg>Die Katze</seg></tuv></tu>
<!-- <tu><seg>x</seg></tu> --><tu><tuv xml:lang="en-US"><seg><![CDATA[Dog & <i>]]></seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Vogel</seg></tuv><tuv xml:lang="en-US"><seg>Bird</seg></tuv></tu>
</body></tmx>"""
WMT = """<?xml version="1.0"?><dataset><doc id="a" origlang="en">
<src lang="en"><p><seg id="1">One</seg><seg id="2">Two</seg></p></src>
<ref lang="de" translator="A"><p><seg id="1">Eins</seg><seg id="2">Zwei</seg></p></ref>
<ref lang="de" translator="B"><p><seg id="2">Zwo</seg></p></ref></doc></dataset>"""
TWICE = '<doc docid="a"><seg id="1">x</seg></doc><doc docid="a"><seg id="1">y</seg></doc>'


@pytest.mark.parametrize(
    ("content", "flags", "expected"),
    [
        (TMX, "--text en", ["The cat", "Dog & <i>", "Bird"]),
        (TMX, "--text DE", ["Die Katze", "", "Vogel"]),
        (TMX, "", "has segment unit 1 twice: name one with --text: de, en-US"),
        (TWICE.replace("a", "b", 1).replace("<seg", "<src><seg", 1), "", "x: has several texts"),
        (WMT, "--text src", ["One", "Two"]),
        (WMT, "--text A", ["Eins", "Zwei"]),
        (WMT, "--text b --text de", ["", "Zwo"]),
        (WMT, "", "has segment a 1 twice: name one with --text: A, B, de, en, ref, src"),
        (WMT, "--text de", "has segment a 2 twice: name one with --text: A, B, de, ref"),
        (WMT, "--text C", "has no such text: name one with --text: A, B, de, en, ref, src"),
        (TWICE, "", "x: has segment a 1 twice"),
        (TWICE.replace('"a"', '"t a"', 1).replace('"a"', "'t b'"), "", ["x", "y"]),
        ("<?xml version='1.0'?><xliff><source>a</source></xliff>", "", "XML file without <seg>"),
    ],
)
def test_one_text_of_a_file_with_several(tmp_path, content, flags, expected):
    (tmp_path / "x").write_text(content)
    done = run_script("data-prep/sentences.py", "x", *flags.split(), cwd=tmp_path)
    if isinstance(expected, str):
        assert_one_line_error(done, expected)
    else:
        assert done.stdout.split("\n")[:-1] == expected, done.stderr


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("<seg>a</seg>\n<seg>b<seg>c</seg></seg>\n", ":2: <seg> without </seg>"),
        ("a</seg>\n", ":1: <seg> without </seg>"),
        (SGML.decode()[:-80], ": it ends inside <seg>: damaged"),
        (SGML.decode()[:-40], ": it ends inside <srcset>"),
        (TMX[: TMX.rindex("<tuv")], ": it ends inside <tu>"),
        (TMX[:-9], ": it ends inside <tmx>"),
    ],
)
def test_damaged_markup_is_named_and_nothing_is_written(tmp_path, content, fault):
    (tmp_path / "x").write_text(content, "utf-8")
    done = run_script("data-prep/sentences.py", "x", "--output", "out", cwd=tmp_path)
    assert_one_line_error(done, f"x{fault}")
    done = run_script("data-prep/sentences.py", "x", "--output", "x/out", cwd=tmp_path)
    assert_one_line_error(done, "sentences.py: error: ", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize(
    ("language", "flags", "raw", "expected"),
    [
        # Expected by the rules of tokenizer.perl and normalize-punctuation.perl.
        ("en", (), "A man's well-known hat, 5,300 \u201ccups\u201d.",
         "A man &apos;s well-known hat , 5,300 &quot; cups . &quot;"),
        ("de", ("--lowercase", "--no-escape"), "\u00dcber R&B", "\u00fcber r & b"),
        ("de", ("--aggressive",), "rot-wei\u00df", "rot @-@ wei\u00df"),
        ("en", ("--no-normalize",), "\u201ca\u201d", "\u201c a \u201d"),
        ("en", ("--no-tokenize",), "\u201ca\u201d, b", '"a," b'),
        ("de", (), "Ma\u0308nner Mu\u0308nchens", "M\u00e4nner M\u00fcnchens"),
        ("tr", ("--lowercase",), "\u0130stanbul I\u0307zmir", "istanbul izmir"),
        ("fr-CA", (), "l'ami", "l&apos; ami"),
        ("hsb", (), "Mr. A.", "Mr. A."),
        ("fr", ("--detokenize",), "l&apos; ami ( 5.30 ) : a &amp; b !", "l'ami (5.30) : a & b !"),
    ],
)  # fmt: skip
def test_flags_of_tokenization(language, flags, raw, expected):
    command = ("data-prep/normalize_tokenize.py", "--language", language, *flags)
    done = run_script(*command, stdin=f"{raw}\n".encode())
    assert (done.stdout, done.stderr) == (f"{expected}\n", "")


def write_lines(path, records) -> str:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")
    return str(path)


def test_scitldr(tmp_path):
    record = {"source": ["One  thing.\n", " ", "Another.\u2028"], "target": ["A.", "B."], "x": 1}
    path = write_lines(tmp_path / "train.jsonl", [record])
    assert list(READERS["scitldr"](path)) == [Example(["One thing.", "Another."], ["A.", "B."])]
    for source, target in ((["a"], []), ("text", ["t"]), (["text"], [1]), (["text"], ["\ud83d"])):
        other = {"source": source, "target": target} if target else []
        write_lines(tmp_path / "train.jsonl", [record, other])
        with pytest.raises(UserError, match="train.jsonl:2: must be a JSON object with the lists"):
            list(READERS["scitldr"](path))


def test_a_table_whose_fields_hold_line_breaks(tmp_path):
    path = tmp_path / "test.csv"
    text = 'id,article,highlights\r\n1,"He said: ""Go."" Then\r\nhe went.","One .\nTwo ."\r\n'
    path.write_bytes(text.encode())
    (found,) = read_csv(str(path))
    assert found == Example(['He said: "Go."', "Then he went."], ["One .\nTwo ."])
    missing, head = "2: no article, no highlights.*are id, ", "id,article,highlights\n"
    faults = dict.fromkeys(("id,text\n1,a\n", f"{head}1,a\n", f"{head}1,a,b,c\n"), missing)
    faults |= {f'{head}1,"a': "2: unexpec", f'{head}1,a,b\n2,"b"c",d\n': "3: ',' expected after"}
    for text, fault in faults.items():
        path.write_text(text)
        with pytest.raises(UserError, match=f"test.csv:{fault}"):
            list(read_csv(str(path)))


def test_sentences_end_at_stops():
    texts = [["One.", "Two!", "Three?", "Four"], ["He said “No.”", "And left."], []]
    texts += [["Version 1.2 of it. e.g. this"], ["It grew (fast.)", "\u00c9mile saw it.", "Ä"]]
    for sentences in texts:
        assert split_at_stops("  ".join(sentences)) == sentences


def test_summaries_that_are_written_are_read(tmp_path):
    examples = [Example(["A a.", "B."], ["s", "t"]), Example([], ["s"]), Example(["a"], [])]
    examples += [Example(["\u2028".join("cd")], ["u"])]
    assert write_examples(iter(examples), str(tmp_path / "test")) == (2, 2)
    assert (tmp_path / "test.article").read_text("utf-8") == "A a. B.\nc\u2028d\n"
    assert (tmp_path / "test.summary").read_text("utf-8") == "s\nu\n"
    found = list(read_examples(str(tmp_path / "test.jsonl")))
    assert found == [examples[0], Example(["c d"], ["u"])]
    with pytest.raises(UserError, match="no example with an article and a summary"):
        write_examples(iter(examples[1:3]), str(tmp_path / "empty"))
    assert not list(tmp_path.glob("*empty*"))


def test_an_input_is_not_replaced(tmp_path):
    for name in ("train.jsonl", "train.model"):
        write_lines(tmp_path / name, [{"source": ["One."], "target": ["A."]}])
    over = "trees.py clean,bpe.py learn --input,bpe.py apply --codes,wordpiece.py apply --model,"
    over += "bpe.py apply --codes x --vocabulary,wordpiece.py dictionary --model,"
    over += "normalize_tokenize.py --language de --input"
    commands = [f"{each} train.model --output ./train.model" for each in over.split(",")]
    commands += ["summaries.py --format scitldr --input train.jsonl --output train"]
    commands += ["split_groups.py train.jsonl train.model --output . --valid 0 --test 0"]
    commands += ["wordpiece.py learn --at-most --input train.model --output train"]
    for script, *flags in map(str.split, commands):
        done = run_script(f"data-prep/{script}", *flags, cwd=tmp_path)
        assert_one_line_error(done, "is an input or another")


def test_a_reader_that_leaves_is_no_error():
    """As `| head` does."""
    read, write = os.pipe()
    os.close(read)
    script = REPO / "data-prep" / "normalize_tokenize.py"
    command = [sys.executable, script, "--language", "en", "--workers", "1"]
    with open(write, "wb") as pipe:
        done = subprocess.run(command, input=b"a\n" * 9999, stdout=pipe, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (141, b"")
