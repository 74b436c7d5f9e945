"""Our search over the recurrent models, alone and in ensembles, finds what enumeration finds."""

import pytest
import search_reference
import torch
from model_factory import make_model
from recurrent_models import KINDS, make_recurrent
from search_setup import (
    EOS,
    FIRST_WORD,
    as_function,
    make_generator,
    make_sample,
    make_translation_task,
    outputs_of,
)

SYMBOLS = 46  # fairseq caps the beam at V - 1, and 39 outputs are to be found
WORDS = [3, FIRST_WORD, FIRST_WORD + 1]
SOURCES = [[9, 30, 7], [11, 5, 5, 40, 33, 9], [44]]
LONGEST = 3
FIXED = {"max_len_a": 0, "max_len_b": LONGEST}


@pytest.fixture(scope="module")
def task():
    return make_translation_task(SYMBOLS)


def peaked(model):
    """Its logits spread, and the words in use share most of the probability."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5)
        model.projection_weight[[EOS, *WORDS]] *= 2
    return model


def ensemble(task, name):
    if name in KINDS:
        return [peaked(make_recurrent(name, task))]
    transformer = make_model(task)
    with torch.no_grad():
        transformer.projection_weight.mul_(2.5)
    kinds = ("seq2seq", "input feeding", "both ways")
    return [transformer, *(peaked(make_recurrent(kind, task, seed=3)) for kind in kinds)]


@pytest.mark.parametrize("name", ["seq2seq", "input feeding", "ensemble with a Transformer"])
def test_a_wide_beam_is_enumeration(task, name):
    models = ensemble(task, name)
    generator = make_generator(task, models, allowed=WORDS, beam=45, lenpen=0.6, **FIXED)
    found = generator.generate(models, make_sample(SOURCES))
    for source, hypotheses in zip(SOURCES, found, strict=True):
        expected = search_reference.enumerate_outputs(
            as_function(models, source), WORDS, EOS, LONGEST, alpha=0.6
        )
        actual = outputs_of(hypotheses)
        assert len(actual) == len(expected) == 39
        assert [tokens for tokens, _ in actual[:20]] == [o.tokens for o in expected[:20]]
        scores = [score for _, score in actual]
        assert scores == pytest.approx([o.score for o in expected], abs=1e-4)
