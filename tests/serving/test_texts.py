"""The lines of a text, HTML, and what a request to translate may hold."""

import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani_plugin.serving.limits import Limits, Refusal
from vaswani_plugin.serving.markup import split_markup, text_as_markup
from vaswani_plugin.serving.texts import Languages, Layout, TranslationRequest

ENGLISH_GERMAN = Languages("en", "de")


@given(st.text(alphabet=st.sampled_from("ab \n\t\r.😀\u2028\x85"), max_size=40))
def test_a_text_filled_with_its_own_lines_is_itself(text):
    layout = Layout(text)
    assert layout.filled(layout.lines) == text
    for line in layout.lines:
        assert "\n" not in line and line == line.strip() and any(map(str.isalnum, line))


def test_blanks_empty_lines_and_signs_stay():
    layout = Layout("  One. \n\n--- 😀\n\tTwo 2\n")
    assert layout.lines == ["One.", "Two 2"]
    assert layout.filled(["Eins.", "Zwei"]) == "  Eins. \n\n--- 😀\n\tZwei\n"


def test_only_the_text_of_html_is_translated():
    html = (
        "<!DOCTYPE html><p class='a b'>One &amp;\n two <b>three</b><br/></P>"
        "<!-- four --><script>five('</p>')</script><pre>six\n<i>seven</i></pre> eight &lt;nine&gt;"
        "<textarea><p>ten</textarea><code>eleven<code>twelve</code> thirteen < fourteen"
    )
    layout = Layout(html, is_markup=True)
    assert layout.lines == ["One & two", "three", "eight <nine>"]
    assert layout.filled(["1 & 2", "<3>", "8"]) == (
        "<!DOCTYPE html><p class='a b'>1 &amp; 2 <b>&lt;3&gt;</b><br/></P>"
        "<!-- four --><script>five('</p>')</script><pre>six\n<i>seven</i></pre> 8"
        "<textarea><p>ten</textarea><code>eleven<code>twelve</code> thirteen < fourteen"
    )


@pytest.mark.parametrize(
    ("html", "texts"),
    [
        ("a<b c='>'d=\"<e>\">f", ["a", "f"]),
        ("a<b c\"d='e>f'>g", ["a", "g"]),
        ('a<b c=d"e>f', ["a", "f"]),
        ("a<b c=>d", ["a", "d"]),
        ("a<b/c>d</b e>f", ["a", "d", "f"]),
        ("a<b c='d>e", ["a"]),
        ("a < b <3 c", ["a < b <3 c"]),
        ("a<!-->b<!--->c<!-- d -- > e --!>f", ["a", "b", "c", "f"]),
        ("a</ b>c<?d?>e<![f g]>h", ["a", "c", "e", "h"]),
        ("a<!-- b", ["a"]),
        ("a<script>b</scripts>c</SCRIPT >d", ["a", "d"]),
        ("a<\u017fcript>b", ["a<\u017fcript>b"]),
        ("<svg>a<code>b</svg>c", ["c"]),
        ("<p>a <svg width='1'/> b</p><math/>c", ["a", "b", "c"]),
        ("<svg><style/><g/></svg><p>a</p><code/>b", ["a"]),
        ("<code>a<xcode>b</code>c", ["c"]),
        ("a&lt;b&gt;c &unknown; &#x41;", ["a<b>c &unknown; A"]),
    ],
)
def test_tags_end_where_browsers_end_them(html, texts):
    assert Layout(html, is_markup=True).lines == texts


@given(st.text(alphabet=st.sampled_from("ab<>/&;!-\"'= \n?pre"), max_size=60))
def test_the_pieces_of_html_are_the_html(html):
    assert "".join(piece for piece, _ in split_markup(html)) == html


class Tags(HTMLParser):
    """The tags of a text and their attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, attrs))


PARTS = ["<p title='a>b'>", "</p>", "<br>", "word", " & ", "&lt;", "<!-- c -->", "<pre>", "</pre>"]


@given(st.lists(st.sampled_from(PARTS), max_size=12))
def test_no_translation_makes_a_tag(parts):
    html = "".join(parts)
    layout = Layout(html, is_markup=True)
    hostile = "<script>alert(1)</script>' onclick=x \"--> &lt;"
    filled = layout.filled([hostile] * len(layout.lines))
    assert Tags(filled).found == Tags(html).found
    assert Layout(filled, is_markup=True).lines == [hostile] * len(layout.lines)
    assert not set("<>'\"") & set(text_as_markup(hostile))


@pytest.mark.parametrize(
    "part",
    [
        "<a ",
        "<a b='",
        "<!--",
        "<",
        "</a",
        "<![CDATA[",
        "<a b=c ",
        "&",
        "<!",
        "<?",
        "<pre>",
        "</pre>",
    ]
    + ["<script>", "<a\n", "=", "&#", "<svg></math>", '<a "', "<a =", "a "],
)
def test_hostile_html_takes_no_longer_than_harmless(part):
    """In proportion to the text; the standard library's parser takes the square of it."""
    html = part * (100_000 // len(part))
    start = time.perf_counter()
    Layout(html, is_markup=True)
    assert time.perf_counter() - start < 2
    start = time.perf_counter()
    Layout("<pre>" * 20_000 + html, is_markup=True)
    assert time.perf_counter() - start < 2


def read(**fields):
    good = {"q": "Hello", "source": "en", "target": "de"}
    limits = Limits(characters=100, texts=3, alternatives=4, queue_lines=5)
    return TranslationRequest.from_fields(good | fields, ENGLISH_GERMAN, limits)


MISSING = "Invalid request: missing {} parameter"


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"q": ""}, 400, MISSING.format("q")),
        ({"q": []}, 400, MISSING.format("q")),
        ({"q": None}, 400, MISSING.format("q")),
        ({"source": ""}, 400, MISSING.format("source")),
        ({"target": None}, 400, MISSING.format("target")),
        ({"target": "zz"}, 400, "zz is not supported"),
        ({"source": "zz"}, 400, "zz is not supported"),
        ({"target": "auto"}, 400, "auto is not supported"),
        (
            {"source": "de", "target": "en"},
            400,
            "English (en) is not available as a target language from German (de)",
        ),
        (
            {"source": "en", "target": "en"},
            400,
            "English (en) is not available as a target language from English (en)",
        ),
        ({"format": "xml"}, 400, "xml format is not supported"),
        (
            {"alternatives": "abc"},
            400,
            "Invalid request: alternatives parameter is not a number",
        ),
        ({"alternatives": [1]}, 400, "Invalid request: alternatives parameter is not a number"),
        ({"alternatives": 5}, 400, "Invalid request: alternatives parameter must be from 0 to 4"),
        ({"alternatives": -1}, 400, "Invalid request: alternatives parameter must be from 0 to 4"),
        ({"q": 7}, 400, "Invalid request: q parameter is not a string or a list of strings"),
        (
            {"q": ["a", {}]},
            400,
            "Invalid request: q parameter is not a string or a list of strings",
        ),
        ({"source": ["en"]}, 400, "Invalid request: source parameter is not a string"),
        ({"q": "x" * 101}, 413, "Invalid request: request (101) exceeds text limit (100)"),
        ({"q": ["a"] * 4}, 413, "Invalid request: request (4) exceeds text limit (3)"),
        ({"q": "a\n" * 6}, 413, "Invalid request: request (6) exceeds text limit (5)"),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_libretranslate(fields, status, message):
    with pytest.raises(Refusal) as refused:
        read(**fields)
    assert (refused.value.status, refused.value.message) == (status, message)


def test_answers_have_the_shape_of_the_question():
    assert read().answer([["Hallo"]], "en") == {"translatedText": "Hallo"}
    assert read(q=["a", "b c"]).answer([["A"], ["B"]], "en") == {"translatedText": ["A", "B"]}
    undetected = {"confidence": 0.0, "language": "en"}
    assert read(q=["a"], source="auto").answer([["A"]], "en") == {
        "translatedText": ["A"],
        "detectedLanguage": [undetected],
    }
    assert read(source="auto").answer([["A"]], "en") == {
        "translatedText": "A",
        "detectedLanguage": undetected,
    }


def test_alternatives_of_several_lines():
    found = [["A", "A2", "A3"], ["B", "B2"]]
    assert read(q="a\nb", alternatives="2").answer(found, "en") == {
        "translatedText": "A\nB",
        "alternatives": ["A2\nB2", "A3\nB2"],
    }
    assert read(q=["a", "😀"], alternatives=2).answer(found[:1], "en") == {
        "translatedText": ["A", "😀"],
        "alternatives": [["A2", "A3"], []],
    }
