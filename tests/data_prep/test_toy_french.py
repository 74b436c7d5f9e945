"""The embedded English-French corpus: French written by hand for each rule, and its shape."""

import itertools
import random
import sys

import pytest

from tests.conftest import REPO

sys.path.insert(0, str(REPO / "data-prep"))

import toy_french  # noqa: E402
import toy_translation  # noqa: E402

# Each by hand: gender, agreement, place of the adjective, elision, negation, contraction.
SENTENCES = {
    "le boulanger": "the baker",
    "l'actrice": "the actress",
    "l'île": "the island",
    "une grande maison": "a big house",
    "la maison verte": "the green house",
    "deux grandes voitures": "two big cars",
    "trois mauvais livres": "three bad books",
    "sept chaises noires": "seven black chairs",
    "la petite île": "the small island",
    "un étudiant étrange": "a strange student",
}


def test_phrases_written_by_hand():
    rng = random.Random(1)
    made = {}
    for _ in range(20_000):
        english, french, _ = toy_french.noun_phrase(rng, toy_french.PEOPLE + toy_french.THINGS)
        assert made.setdefault(french, english) == english
    for french, english in SENTENCES.items():
        assert made[french] == english
    assert not any(wrong in made for wrong in ("le actrice", "l'maison", "trois mauvaiss livres"))


def test_clauses():
    clauses = dict(itertools.islice(toy_french.pairs(3), 30_000))
    verbs = {english: french for english, french in clauses.items() if " not " in english}
    assert any(" does not like " in e and " n'aime pas " in f for e, f in verbs.items())
    assert any(" do not like " in e and " n'aiment pas " in f for e, f in verbs.items())
    assert any(" do not see " in e and " ne voient pas " in f for e, f in verbs.items())
    assert all(("ne " in f or "n'" in f) and " pas " in f for f in verbs.values())
    said = [(e, f) for e, f in clauses.items() if " says that " in e]
    assert any("dit qu'un" in f for _, f in said) and any("dit que l" in f for _, f in said)
    assert not any("que un" in f or "que une" in f for _, f in said)
    for english, french in clauses.items():
        assert english[0].isupper() and french[0].isupper()
        assert english.endswith(".") and french.endswith(".")
        assert "  " not in english + french


@pytest.mark.parametrize("seed", [1, 2])
def test_splits_as_in_german(seed):
    sizes = {"train": 300, "valid": 40, "test": 60}
    corpus = toy_translation.make_corpus(sizes, seed, "fr")
    assert {name: len(pairs) for name, pairs in corpus.items()} == sizes
    assert corpus == toy_translation.make_corpus(sizes, seed, "fr")
    assert corpus != toy_translation.make_corpus(sizes, seed + 1, "fr")
    for side in (0, 1):
        sentences = [pair[side] for pairs in corpus.values() for pair in pairs]
        assert len(set(sentences)) == 400
