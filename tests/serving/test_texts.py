"""The sentences of a text, and what a request to translate may hold."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani_plugin.serving.texts import Languages, Layout, Limits, Refusal, TranslationRequest

ENGLISH_GERMAN = Languages("en", "de")


def layout_of(text, target="de"):
    return Layout(text, Languages("en", target))


@given(st.text(alphabet=st.sampled_from("aB \n\t\r.😀\u2028\x85!"), max_size=60))
def test_a_text_filled_with_its_own_sentences_is_itself(text):
    layout = layout_of(text)
    assert "".join(layout.filled(layout.sentences).split()) == "".join(text.split())
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


@pytest.mark.parametrize("part", ["A. ", "a.b!", "“", "a "])
def test_hostile_texts_take_no_longer_than_harmless_ones(part):
    """In proportion to the text: some libraries take the square of it."""
    start = time.process_time()  # the machine may have other work
    layout_of(part * (100_000 // len(part)))
    assert time.process_time() - start < 3


def read(**fields):
    good = {"q": "Hello", "source": "en", "target": "de"}
    limits = Limits(characters=100, texts=3, alternatives=4)
    return TranslationRequest.from_fields(good | fields, ENGLISH_GERMAN, limits)


def test_an_alternative_is_another_text():
    answer = read(alternatives=2).answer([["Eins", "Eins", "Zwei"]], ENGLISH_GERMAN)
    assert answer == {"translatedText": "Eins", "alternatives": ["Zwei"]}


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"q": []}, 400, "Invalid request: missing q parameter"),
        ({"target": None}, 400, "Invalid request: missing target parameter"),
        ({"target": "auto"}, 400, "auto is not supported"),
        (
            {"source": "de", "target": "en"},
            400,
            "English (en) is not available as a target language from German (de)",
        ),
        ({"format": "html"}, 400, "html format is not supported"),
        ({"alternatives": "abc"}, 400, "Invalid request: alternatives parameter is not a number"),
        ({"alternatives": True}, 400, "Invalid request: alternatives parameter is not a number"),
        ({"alternatives": 5}, 400, "Invalid request: alternatives parameter must be at most 4"),
        ({"alternatives": -1}, 400, "Invalid request: alternatives parameter must be at least 0"),
        ({"q": ["a", 1]}, 400, "Invalid request: q parameter is not a string or a list of strings"),
        ({"source": ["en"]}, 400, "Invalid request: source parameter is not a string"),
        ({"q": "x" * 101}, 413, "Invalid request: request (101 characters) exceeds limit (100)"),
        ({"q": ["a"] * 4}, 413, "Invalid request: request (4 texts) exceeds limit (3)"),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_libretranslate(fields, status, message):
    with pytest.raises(Refusal) as refused:
        read(**fields)
    assert (refused.value.status_code, refused.value.detail) == (status, message)


def test_a_language_and_an_undetected_one():
    assert Languages("pt-BR", "hsb").listed()[0]["name"] == "Portuguese (Brazil)"
    undetected = {"confidence": 0.0, "language": "en"}
    for q, translated, detected in (("a", "A", undetected), (["a"], ["A"], [undetected])):
        expected = {"translatedText": translated, "detectedLanguage": detected}
        assert read(q=q, source="auto").answer([["A"]], ENGLISH_GERMAN) == expected


def test_alternatives_of_several_lines():
    assert read(alternatives=None).alternatives == 0
    found = [["A", "A2", "A3"], ["B", "B2"]]
    expected = {"translatedText": "A\nB", "alternatives": ["A2\nB2", "A3\nB2"]}
    assert read(q="a\nb", alternatives="2").answer(found, ENGLISH_GERMAN) == expected
    expected = {"translatedText": ["A", "😀"], "alternatives": [["A2", "A3"], []]}
    assert read(q=["a", "😀"], alternatives=2).answer(found[:1], ENGLISH_GERMAN) == expected
