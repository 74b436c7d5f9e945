"""Raw text: invisible characters that mean nothing go, and sentences are cut."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani_plugin.text.raw_text import join_sentences, remove_invisible, split_sentences

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
SCOTLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
REMOVED = "\ufeffThe doctor sleeps.|a\u200bb\u2060c\ufeffd|don\u00adkey|a\0b\x07c\x9dd"
REMOVED += (
    "|\u202aabc\u202c\u061c \u200edef|doc\u200dtor \u200ccat|\u4f60\u200d\u597d\u200b|\u200d\u0915"
)
REMOVED += "|x\U000e0067\U000e007fy|a\ufdd0b\uffff"
LEFT = "The doctor sleeps.|abcd|donkey|abcd|abc def|doctor cat|\u4f60\u597d|\u0915|xy|ab"
CASES = list(zip(REMOVED.split("|"), LEFT.split("|"), strict=True))
CASES.append(("x" + "\u200d" * 60_000 + "\U000e0067" * 60_000, "x"))  # in one pass, not 60,000


@pytest.mark.parametrize(("line", "expected"), CASES, ids=range(len(CASES)))
def test_removed(line, expected):
    assert remove_invisible(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian
        "\u0915\u094d\u200d\u0937 \u0930\u200d\u094d\u092f",  # Hindi, Marathi
        "\u0dc1\u0dca\u200d\u0dbb\u0dd3",  # Sinhala
        f"{FAMILY} \u2764\ufe0f\u200d\U0001f525 \U0001f44b\U0001f3fd\u200d\u2640\ufe0f",
        SCOTLAND,
        "\u05e9\u05dc\u05d5\u05dd\u200f!",  # Hebrew with a mark of direction
        "\u17a2\u200b\u17a2",  # Khmer words
        "\u0600\u0661\u0662",  # a visible sign of class Cf
        "a\tb\u00a0c\u202fd\u3000e\u0085f\u2028g",  # white space of all kinds
        "10\u2076 \u00bd e\u0301 \ue000",
    ],
)
def test_kept(line):
    assert remove_invisible(line) == line


@given(
    st.text(st.characters(codec="utf-8") | st.sampled_from("\u200d\u200c\u200b\u200e\ufeff\xada "))
)
def test_visible_text_stays_and_twice_is_once(line):
    found = remove_invisible(line)
    assert remove_invisible(found) == found

    def visible(text: str) -> str:
        return "".join(c for c in text if unicodedata.category(c) not in ("Cc", "Cf", "Cn"))

    assert visible(found) == visible(line)
    # Whatever goes is of the class that Moses' remove-non-printing-char.perl replaces.
    assert not re.search("[\0-\x08\ufeff]", found)


SMITH = ["The cat slept. ", "Dr. Smith came at 3.15 p.m."]
BACH = ["J. S. Bach wrote it in 1723. "]
IN_LANGUAGES = {
    "de-AT": ["Der 1. FC verlor 3:1. ", "Wilhelm II. Kaiser war 1888. ", "Der 2. Band."],
    "hsb": ["Na 1. Serb."],
    "fr": ["M. Dupont et J.-P. Sartre. ", "Mme. Curie a 20. ", "Oui."],
    "zh-Hans": ["他来了。", "我走了！"],
}


def test_sentences_are_cut_by_their_language():
    for language, sentences in IN_LANGUAGES.items():
        assert split_sentences("".join(sentences), language) == sentences
        joint = "" if language == "zh-Hans" else " "
        assert join_sentences(["a", "b"], language) == f"a{joint}b"


def test_sentences_are_cut_and_are_the_text_together():
    for text, wanted in (
        ("The cat slept. Dr. Smith came at 3.15 p.m.", SMITH),
        ("One. --- !!! Two.  ", ["One. --- !!! ", "Two.  "]),
        ("1. First item. 2. Second.", ["1. First item. ", "2. Second."]),
        ("J. S. Bach wrote it in 1723. He is 37. Yes.", [*BACH, "He is 37. ", "Yes."]),
        ("IV. Results", ["IV. Results"]),
        ("他来了。我走了！", ["他来了。", "我走了！"]),
        ("The\u2028cat.\u00a0He\rran. Why", ["The\u2028cat.\u00a0", "He\rran. ", "Why"]),
    ):
        found = split_sentences(text, "zh" if text[0] == "他" else "en")
        assert found == wanted and "".join(found) == text
    long = ["word " * 2000 + "\u2013 end. "]  # longer than what is cut at once
    long += [f"Number {n} sleeps near the sea. " for n in range(2000)]
    assert split_sentences("".join(long), "en") == long
    assert [join_sentences(["a.", "", "b."], code) for code in ("de", "th")] == ["a. b."] * 2
    assert join_sentences(["a。", "b。"], "zh") == "a。b。"
