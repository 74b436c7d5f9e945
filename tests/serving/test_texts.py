"""The sentences of a text, HTML, and what a request to translate may hold."""

import contextlib
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani_plugin.serving.texts import (
    Languages,
    Layout,
    Limits,
    Refusal,
    TranslationRequest,
)

ENGLISH_GERMAN = Languages("en", "de")


def layout_of(text, is_html=False, target="de"):
    return Layout(text, Languages("en", target), is_html)


@given(st.text(alphabet=st.sampled_from("aB \n\t\r.😀\u2028\x85!"), max_size=60))
def test_a_text_filled_with_its_own_sentences_is_itself(text):
    layout = layout_of(text)
    filled = layout.filled(layout.sentences)
    assert "".join(filled.split()) == "".join(text.split())
    for sentence in layout.sentences:
        assert "\n" not in sentence and sentence == sentence.strip()
        assert any(map(str.isalnum, sentence))


def test_blanks_empty_lines_and_signs_stay():
    layout = layout_of("  One is here.  Two! \n\n--- 😀\n\tTwo 2\n")
    assert layout.sentences == ["One is here.", "Two!", "Two 2"]
    numbers = [part for part in layout.parts if isinstance(part, int)]
    assert numbers == [0, 1, 2] and "--- 😀" in layout.parts
    assert layout.filled(["Eins.", "Zwei!", "Zwei"]) == "  Eins.  Zwei! \n\n--- 😀\n\tZwei\n"


def test_sentences_are_joined_as_the_target_language_does():
    assert layout_of("One is here. Two.", target="zh").filled(["一。", "二。"]) == "一。二。"
    chinese = Layout("他来了。我走了！", Languages("zh", "en"))
    assert chinese.filled(["He came.", "I went!"]) == "He came. I went!"


def test_only_the_text_of_html_is_translated():
    html = (
        "<p class='a b'>One &amp;\n two <b>three</b><br/></P>"
        "<!-- four --><script>five('</p>')</script><pre>six\n<i>seven</i></pre> eight &lt;nine&gt;"
        "<textarea>ten</textarea><code>eleven</code> <i translate=no>t <b translate>u</b></i>"
        "<u class='x notranslate'>v <b>w</b></u> end"
    )
    layout = layout_of(html, is_html=True)
    assert layout.sentences == ["One & two", "three", "eight <nine>", "u", "end"]
    assert layout.filled(["1 & 2", "<3>", "8", "U\x00", "9"]) == (
        '<p class="a b">1 &amp; 2 <b>&lt;3&gt;</b><br></p>'
        "<!-- four --><script>five('</p>')</script><pre>six\n<i>seven</i></pre> 8"
        "<textarea>ten</textarea><code>eleven</code> "
        '<i translate="no">t <b translate>U\ufffd</b></i>'
        '<u class="x notranslate">v <b>w</b></u> 9'
    )
    document = "<!DOCTYPE html>\n<html><head><title>{}</title></head><body>{} {}</body></html>"
    layout = layout_of(document.format("One", "Two.", "Three"), is_html=True)
    assert layout.filled(["1", "2.", "3"]) == document.format("1", "2.", "3")


def test_html_that_is_nested_too_deeply_is_refused():
    assert layout_of("<b>" * 1900 + "deep", is_html=True).sentences == ["deep"]
    with pytest.raises(Refusal, match="nested too deeply") as refused:
        layout_of("<b>" * 3000 + "deep", is_html=True)
    assert refused.value.status == 400


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
    layout = layout_of(html, is_html=True)
    hostile = "<script>alert(1)</script>' onclick=x \"--> &lt;"
    filled = layout.filled([hostile] * len(layout.sentences))
    plain = layout.filled(["x"] * len(layout.sentences))
    assert Tags(filled).found == Tags(plain).found


@pytest.mark.parametrize(
    "part",
    "<a |<a b='|<!--|<|</a|<![CDATA[|<a b=c |&|<!|<pre>|</pre>".split("|")
    + ["<script>", "<a\n", "=", "&#", "<svg></math>", '<a "', "<a =", "a ", "“", "A. ", "a.b!"],
)
@pytest.mark.parametrize("is_html", [False, True])
def test_hostile_texts_take_no_longer_than_harmless_ones(part, is_html):
    """In proportion to the text: some libraries take the square of it."""
    start = time.process_time()  # the machine may have other work
    with contextlib.suppress(Refusal):
        layout_of(part * (100_000 // len(part)), is_html)
    assert time.process_time() - start < 3


def read(**fields):
    good = {"q": "Hello", "source": "en", "target": "de"}
    limits = Limits(characters=100, texts=3, alternatives=4)
    return TranslationRequest.from_fields(good | fields, ENGLISH_GERMAN, limits)


MISSING = "Invalid request: missing {} parameter"


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"q": ""}, 400, MISSING.format("q")),
        ({"q": []}, 400, MISSING.format("q")),
        ({"source": ""}, 400, MISSING.format("source")),
        ({"target": None}, 400, MISSING.format("target")),
        ({"target": "zz"}, 400, "zz is not supported"),
        ({"target": "auto"}, 400, "auto is not supported"),
        (
            {"source": "de", "target": "en"},
            400,
            "English (en) is not available as a target language from German (de)",
        ),
        ({"format": "xml"}, 400, "xml format is not supported"),
        (
            {"alternatives": "abc"},
            400,
            "Invalid request: alternatives parameter is not a number",
        ),
        ({"alternatives": 5}, 400, "Invalid request: alternatives parameter must be from 0 to 4"),
        ({"q": 7}, 400, "Invalid request: q parameter is not a string or a list of strings"),
        (
            {"q": ["a", {}]},
            400,
            "Invalid request: q parameter is not a string or a list of strings",
        ),
        ({"source": ["en"]}, 400, "Invalid request: source parameter is not a string"),
        ({"q": "x" * 101}, 413, "Invalid request: request (101) exceeds text limit (100)"),
        ({"q": ["a"] * 4}, 413, "Invalid request: request (4) exceeds text limit (3)"),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_libretranslate(fields, status, message):
    with pytest.raises(Refusal) as refused:
        read(**fields)
    assert (refused.value.status, refused.value.message) == (status, message)


def test_answers_have_the_shape_of_the_question():
    assert read().answer([["Hallo"]], ENGLISH_GERMAN) == {"translatedText": "Hallo"}
    assert read(q=["a", "b c"]).answer([["A"], ["B"]], ENGLISH_GERMAN) == {
        "translatedText": ["A", "B"]
    }
    undetected = {"confidence": 0.0, "language": "en"}
    assert read(q=["a"], source="auto").answer([["A"]], ENGLISH_GERMAN) == {
        "translatedText": ["A"],
        "detectedLanguage": [undetected],
    }
    assert read(source="auto").answer([["A"]], ENGLISH_GERMAN) == {
        "translatedText": "A",
        "detectedLanguage": undetected,
    }


def test_alternatives_of_several_lines():
    found = [["A", "A2", "A3"], ["B", "B2"]]
    assert read(q="a\nb", alternatives="2").answer(found, ENGLISH_GERMAN) == {
        "translatedText": "A\nB",
        "alternatives": ["A2\nB2", "A3\nB2"],
    }
    assert read(q=["a", "😀"], alternatives=2).answer(found[:1], ENGLISH_GERMAN) == {
        "translatedText": ["A", "😀"],
        "alternatives": [["A2", "A3"], []],
    }
