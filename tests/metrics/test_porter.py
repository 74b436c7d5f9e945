"""Porter's stemmer against nltk's: made-up words of all its suffixes, and irregular words."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.stem.porter import PorterStemmer

from vaswani_plugin.metrics.porter import stem

SUFFIXES = (
    "s es ies sses ed eed ied ing at bl iz ational tional enci anci izer bli alli entli eli ousli "
    "ization ation ator alism iveness fulness ousness aliti iviti biliti fulli logi icate ative "
    "alize iciti ical ful ness al ance ence er ic able ible ant ement ment ent ion ou ism ate iti "
    "ous ive ize e l ll y yed ss z"
).split()


@given(
    start=st.text("abceilnostyw", max_size=6),
    suffixes=st.lists(st.sampled_from(SUFFIXES), max_size=3),
)
@settings(max_examples=600)
def test_stems_as_nltk(start, suffixes):
    word = start + "".join(suffixes)
    assert stem(word) == PorterStemmer().stem(word)


@pytest.mark.parametrize(
    "text",
    [
        "sky skies dying lying tying news inning innings outing outings canning cannings howe",
        "proceed exceed succeed flies dies cries spied enjoy happy say by fall hopping",
        "falling tied",
        "rational radically analogies theology bally rally sensibilities vietnamization 3rds 1990s",
    ],
)
def test_words_of_their_own_as_nltk(text):
    assert [stem(word) for word in text.split()] == list(map(PorterStemmer().stem, text.split()))
