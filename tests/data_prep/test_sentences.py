"""sentences.py: test sets in SGML and XML, IWSLT's training text, and what is wrong with them."""

from pathlib import Path
from xml.sax.saxutils import escape

import pytest
import sentences as script
from hypothesis import given
from hypothesis import strategies as st

from tests.support.scripts import assert_one_line_error, run_script

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
SENTENCES = [
    *("A title", "TED Talk: what & why.", "Thank you so much, Chris.", ""),
    "It's <i>really</i> great.",
]


def extracted(*args: object) -> list[str]:
    done = run_script("data-prep/sentences.py", *args)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_segments_and_training_text(tmp_path: Path) -> None:
    (tmp_path / "t.sgm").write_bytes(SGML)
    (tmp_path / "train.tags.de-en.en").write_text(TRAINING)
    found = extracted(tmp_path / "t.sgm", tmp_path / "train.tags.de-en.en")
    assert found == [*SEGMENTS, *SENTENCES]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"])), min_size=1))
def test_any_text_comes_back(tmp_path_factory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("xml") / "t.xml"
    path.write_bytes("".join(f'<seg id="1"> {escape(t)}\n</seg>\n' for t in texts).encode())
    assert list(script.sentences(str(path))) == [text.strip() for text in texts]


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"<seg>a</seg>\n<seg>b\n", "x:2: <seg> without </seg>"),
        (b"<seg>a<seg>b</seg></seg>\n", "x:1: <seg> without </seg>"),
        (b"a</seg>\n", "x:1: <seg> without </seg>"),
        (b"<seg>\xff</seg>\n", "x:1: invalid UTF-8"),
        (b"", "x: the file is empty"),
    ],
)
def test_damaged_files_are_named_and_nothing_is_written(
    tmp_path: Path, content: bytes, part: str
) -> None:
    (tmp_path / "x").write_bytes(content)
    done = run_script("data-prep/sentences.py", "x", "--output", "out", cwd=tmp_path)
    assert_one_line_error(done, part)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
