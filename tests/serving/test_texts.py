"""The lines of a text, HTML, and what a request to translate may hold."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani_plugin.serving.limits import Limits, Refusal
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
        "<!-- four --><script>five()</script><pre>six\nseven</pre> eight &lt;nine&gt;"
    )
    layout = Layout(html, is_markup=True)
    assert layout.lines == ["One & two", "three", "eight <nine>"]
    assert layout.filled(["1 & 2", "<3>", "8"]) == (
        "<!DOCTYPE html><p class='a b'>1 &amp; 2 <b>&lt;3&gt;</b><br/></p>"
        "<!-- four --><script>five()</script><pre>six\nseven</pre> 8"
    )


class Tags(HTMLParser):
    """The tags of a text and their attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, attrs))


@given(st.text(alphabet=st.sampled_from("ab<>/&;!-\"'= pscript\n"), max_size=40))
def test_no_translation_makes_a_tag(html):
    """Hostile HTML in, hostile translations: the tags of the answer are those of the question."""
    try:
        layout = Layout(html, is_markup=True)
    except Refusal:
        return
    filled = layout.filled(["<script>alert(1)</script>"] * len(layout.lines))
    assert Tags(filled).found == Tags(html).found
    assert "<script>alert(1)" not in filled.replace(html, "")


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
