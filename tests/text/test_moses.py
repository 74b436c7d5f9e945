"""vaswani_plugin.text.moses against sacremoses itself, on arbitrary and on nasty text."""

import functools
import unicodedata

from hypothesis import example, given, settings
from hypothesis import strategies as st
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from vaswani_plugin.text import moses

LANGUAGES = ("en", "de", "fr")

# What some rule of Moses asks for, and what its port uses for signs of its own.
NASTY = (
    *("'", "' '", "''", "n't", "'s", "'S ", "l'", "`", "``", '"', "\u00b4", "\u00b4\u00b4"),
    *(".", "..", "...", ". ", ".'", ". '", "etc.", "Nr.", "No.", "z.B.", "Mr.", "p.", "A.", "a."),
    *(",", ", ", " ,", ",,", "5", "5,3", "\u0663", "\u00bd", "\u00b2", "1 %", " :", " ;"),
    *("-", "--", "a-b", "\u2013", "\u2014", "\u2026", "/", "&", "|", "<", ">", "[", "]", "(", ")"),
    *("@-@", "&amp;", "DOT", "MULTI", "DOTMULTI", "DOTDOTMULTI", "THISISPROTECTED000"),
    *("\u201e", "\u201c", "\u2018", "\u2019", "a\u2019b", "\u00ab\u00a0", "\u00a0\u00bb"),
    *("\u201d", "\u201a", "a\u2018b", "\u00ab", "\u00bb", "\u00a0;"),
    *("\u00a0", "\u00a0!", "5\u00a0000", "n\u00ba\u00a0", "\u00a0\u00baC", "\u00a0cm", "\u00ba"),
    *(" ", "  ", "\t", "\r", "\x01", "\x1f", "\x7f", "\u0085", "\u2028", "\u200b", "\u00ad"),
    *("a", "A", "\u00e9", "\u00df", "\u00aa", "\u0301", "\u4e2d", "\u0926\u094d", "\U0001f600"),
)
TEXTS = st.one_of(
    st.lists(st.sampled_from(NASTY), max_size=12).map("".join),
    st.lists(st.sampled_from(NASTY), max_size=12).map(" ".join),
    st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=40),
)


@functools.cache
def reference(language: str) -> tuple[MosesTokenizer, MosesPunctNormalizer]:
    """sacremoses' own objects."""
    return MosesTokenizer(lang=language), MosesPunctNormalizer(lang=language)


@functools.cache
def ours(language: str, normalize: bool, tokenize: bool, aggressive: bool, escape: bool):
    """Our function."""
    return moses.make_processor(language, False, normalize, tokenize, aggressive, escape)


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.sampled_from((*LANGUAGES, "it", "zh")), st.booleans(), st.booleans())
@example("DOTMULTI xDOTMULTI.", "en", False, False)
@example("Ma\u0308nner", "de", False, False)
@example("5.. A", "en", False, False)
@example("5' '5 a' 'b", "en", False, True)
@example("No. 5 No. A No. a pp. 7 etc. A. No.", "en", False, True)
@example("Nr. 5 Nr. A z.B. 3. a ca. A.", "de", False, True)
def test_tokens_are_those_of_sacremoses(text, language, aggressive, escape):
    result = ours(language, False, True, aggressive, escape)(text)
    text = unicodedata.normalize("NFC", text)
    tokens = reference(language)[0].tokenize(text, aggressive_dash_splits=aggressive, escape=escape)
    assert result == " ".join(tokens)


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.sampled_from((*LANGUAGES, "cs", "fi")))
@example("\u201eNein.\u201c", "de")
def test_normalized_text_is_that_of_sacremoses(text, language):
    normalized = ours(language, True, False, False, False)(text)
    text = unicodedata.normalize("NFC", text)
    assert normalized == " ".join(reference(language)[1].normalize(text + "\n").split())
