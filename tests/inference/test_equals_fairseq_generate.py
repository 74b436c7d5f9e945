"""`Translator` gives what `fairseq-generate` gives, in any batch size and order, from 8 threads.

Two hypotheses whose scores differ by less than float32's noise are a tie, and are counted.
"""

import math
import random

import pytest

from vaswani_plugin import Translator

SENTENCES = 150
NOISE = 2e-4


@pytest.fixture(scope="module")
def lines(trained):
    return trained.more_sentences(SENTENCES)


@pytest.fixture(scope="module")
def expected(trained, lines):
    return trained.generate(lines, "--beam", 4)


@pytest.fixture(scope="module")
def translator(trained):
    return Translator.from_pretrained(trained.folder, threads=1)


def require_equal(translations, expected):
    """Token for token, but for ties, of which there is at most one."""
    assert len(translations) == len(expected)
    ties = 0
    for found, (tokens, bits) in zip(translations, expected, strict=True):
        assert found.score == pytest.approx(bits * math.log(2), abs=NOISE)
        ties += " ".join(found.tokens) != tokens
    assert ties <= 1


def test_the_sentences_tell_something(trained, translator, expected):
    """The model has learned its corpus, and is unsure of other sentences."""
    found = translator.translate(trained.lines("train.src"))
    right = sum(t.text == line for t, line in zip(found, trained.lines("train.tgt"), strict=True))
    assert right > 0.9 * len(found)
    assert len(expected) == SENTENCES
    different = len({tokens for tokens, _ in expected})
    unsure = sum(bits < -1 for _, bits in expected)
    assert (different > 0.8 * SENTENCES, unsure > 0.1 * SENTENCES) == (True, True), (
        different,
        unsure,
    )


@pytest.mark.parametrize("batch_tokens", [40, 700, 20_000])
def test_in_any_batch_size(translator, lines, expected, batch_tokens):
    require_equal(
        translator.translate(lines, one_sentence=True, beam=4, batch_tokens=batch_tokens), expected
    )


def test_in_any_order_and_as_a_stream(translator, lines, expected):
    order = random.Random(3).sample(range(SENTENCES), SENTENCES)
    stream = translator.stream((lines[n] for n in order), one_sentence=True, beam=4, buffer=37)
    require_equal(list(stream), [expected[n] for n in order])


def test_all_of_the_n_best(trained, translator, lines):
    some = lines[:30]
    expected = trained.generate(some, "--beam", 5, "--nbest", 5, "--lenpen", 0.2)
    options = {"beam": 5, "nbest": 5, "length_penalty": 0.2, "one_sentence": True}
    found = translator.translate(some, **options)
    assert len(expected) == sum(len(t.hypotheses) for t in found) == 5 * len(some)
    flat = [h for t in found for h in t.hypotheses]
    require_equal(flat, expected)


def test_the_bundle_tells_how_long_the_trainings_sentences_are(trained, translator):
    """The least length that at most 1 % of them exceed."""
    lengths = [translator.count_tokens(line) for line in trained.lines("train.src")]
    shares = {most: sum(n > most for n in lengths) / len(lengths) for most in set(lengths)}
    assert translator.settings.longest_trained == min(m for m, s in shares.items() if s <= 0.01)
