"""The words that published scores count: punctuation replaced, Moses' tokens, compounds split."""

import pytest

from vaswani_plugin.metrics.tokenization import (
    make_scoring_tokenizer,
    replace_unicode_punctuation,
    split_compounds,
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("well-known", "well ##AT##-##AT## known"),
        ("ab-cd-ef", "ab ##AT##-##AT## cd ##AT##-##AT## ef"),
        # The letter between is used up: the pass goes on behind it.
        ("a-b-c", "a ##AT##-##AT## b-c"),
        ("a-b-c-d", "a ##AT##-##AT## b-c ##AT##-##AT## d"),
        ("a--b", "a ##AT##-##AT## -b"),
        ("- alone - and -so or so-", "- alone - and -so or so-"),
        ("Öl-Äquivalent", "Öl ##AT##-##AT## Äquivalent"),
        ("en\u2013dash", "en\u2013dash"),
    ],
)
def test_hyphens_are_split_in_one_pass(line: str, expected: str) -> None:
    assert split_compounds(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("\u201cJa\u201d, \u2019s", '"Ja", \'s'),
        ("\u201eNein\u201c", '\u201eNein"'),  # the script knows no low quote
        ("Ende\u3002  Neu\uff01", "Ende. Neu!"),
        ("\uff11\uff12\uff05 \u2026", "12% ..."),
        ("plain - \"text\", 'as' is...", "plain - \"text\", 'as' is..."),
    ],
)
def test_unicode_punctuation_becomes_ascii(line: str, expected: str) -> None:
    assert replace_unicode_punctuation(line) == expected


@pytest.mark.parametrize(
    ("language", "line", "expected"),
    [
        ("de", 'Er sagte: "Ja".', "Er sagte : &quot; Ja &quot; ."),
        # tokenizer.perl parts the last full stop from any word, within a line it keeps it.
        ("de", "Am 2. Mai oder am 3.", "Am 2. Mai oder am 3 ."),
        ("de", "Um 5 p.m. oder 6 P.M.", "Um 5 p.m. oder 6 P.M ."),
        ("de", "Und so weiter...", "Und so weiter ..."),
        ("de", ".", "."),
        ("de", "a-b", "a-b"),
        ("fr", "peut-être", "peut @-@ être"),
        ("de", "", ""),
    ],
)
def test_tokens_are_those_of_the_perl_script(language: str, line: str, expected: str) -> None:
    assert make_scoring_tokenizer(language)(line) == expected
