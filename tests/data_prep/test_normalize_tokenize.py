"""normalize_tokenize.py: Moses' rules, a line for a line, the same for any number of workers."""

import pytest

from tests.support.scripts import run_script


def process(text: str, *args: object) -> str:
    """Pipes text through the script."""
    done = run_script("data-prep/normalize_tokenize.py", *args, stdin=text.encode("utf-8"))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("language", "flags", "raw", "expected"),
    [
        # Expected by the rules of tokenizer.perl and normalize-punctuation.perl.
        ("en", (), "A man's well-known hat, 5,300 \u201ccups\u201d.",
         "A man &apos;s well-known hat , 5,300 &quot; cups . &quot;"),
        ("en", ("--no-escape",), "It's", "It 's"),
        ("fr", (), "l'eau d'\u00c9vian", "l&apos; eau d&apos; \u00c9vian"),
        ("de", ("--lowercase",), "\u00dcber B\u00e4ume, dort", "\u00fcber b\u00e4ume , dort"),
        ("de", (), "Bis ca. 10 Uhr.", "Bis ca. 10 Uhr ."),
        ("de", ("--aggressive",), "rot-wei\u00df", "rot @-@ wei\u00df"),
        ("en", ("--no-normalize",), "\u201ca\u201d", "\u201c a \u201d"),
        ("en", ("--no-tokenize",), "\u201ca\u201d, b", '"a," b'),
    ],
)  # fmt: skip
def test_rules(language, flags, raw, expected):
    assert process(raw + "\n", "--language", language, *flags) == expected + "\n"


@pytest.mark.parametrize(
    ("language", "raw"),
    [
        ("en", "Hello, my friend's (5.30): a & b!\n"),
        ("de", "Hallo, mein Freund (5.30): a & b!\n"),
        ("fr", "Bonjour, l'ami (5.30) : a & b !\n"),
    ],
)
def test_detokenize_undoes_tokenize(language, raw):
    tokens = process(raw, "--language", language, "--no-normalize")
    assert "&amp;" in tokens
    assert process(tokens, "--language", language, "--detokenize") == raw
