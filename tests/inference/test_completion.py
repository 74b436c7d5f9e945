"""Completion against loops over the full model, and enumeration of every text."""

import itertools
import math
from functools import cache, partial
from typing import NamedTuple

import pytest
import torch
from language_models import MAKERS, make_language_model, random_texts, text_model
from model_factory import make_task

from vaswani_plugin.inference import completion as completing
from vaswani_plugin.search.options import SearchOptions

GREEDY = SearchOptions(beam=1, lenpen=0.0, min_len=0)
CLOSE = {"rel": 0, "abs": 1e-9}


def complete(model, dictionary, *arguments, **options):
    found = completing.complete(text_model(model), dictionary, *arguments, **options)
    return [[Found.of(one, dictionary) for one in continuations] for continuations in found]


class Found(NamedTuple):
    """A continuation, its tokens as numbers."""

    tokens: list[int]
    log_probabilities: list[float]
    score: float
    ended: bool

    @classmethod
    def of(cls, one, dictionary):
        tokens = [*map(dictionary.index, one.tokens)]
        return cls(tokens, list(one.token_scores), one.score, one.ended)


@torch.no_grad()
def next_log_p(model, text: list[int]) -> torch.Tensor:
    """log P of the token after a text, (V,)."""
    return model(torch.tensor([text]))[0][0, -1].log_softmax(dim=-1)


def greedy_by_hand(model, dictionary, prompt, most):
    """The likeliest token each time, without an end."""
    text = [dictionary.eos(), *prompt]
    for _ in range(most):
        scores = next_log_p(model, text)
        scores[dictionary.pad()] = -math.inf
        text.append(int(scores.argmax()))
    return text[len(prompt) + 1 :]


KINDS = {**MAKERS, "window": partial(make_language_model, attention_window=2)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_wide_beam_is_enumeration(kind):
    """Of three words and the end, every text of up to 3 words; cut ones don't pay for an end."""
    task = make_task(100)
    dictionary = task.source_dictionary
    model = KINDS[kind](task, seed=3)
    words = [4, 5, 6]
    banned = tuple(dictionary[n] for n in range(len(dictionary)) if n not in (1, 2, *words))
    prompts = [[9, 4, 5], [], [8] * 7]
    most, alpha = 3, 0.6
    options = SearchOptions(beam=60, lenpen=alpha, min_len=0)
    found = complete(model, dictionary, prompts, options, most, dictionary.eos(), banned)
    for prompt, completions in zip(prompts, found, strict=True):

        @cache
        def after(*body, prompt=prompt):
            return next_log_p(model, [dictionary.eos(), *prompt, *body])

        expected = []
        for length in range(most + 1):
            for body in itertools.product(words, repeat=length):
                tail = [*body, dictionary.eos()] if length < most else [*body]
                log_p = [float(after(*tail[:n])[token]) for n, token in enumerate(tail)]
                score = sum(log_p) / ((5 + length + 1) / 6) ** alpha
                expected.append((score, list(body), log_p))
        expected.sort(key=lambda entry: -entry[0])
        assert len(completions) == len(expected) == 40
        for completion, (score, body, log_p) in zip(completions, expected, strict=True):
            assert completion.score == pytest.approx(score, **CLOSE)
            assert completion.tokens == body
            assert completion.log_probabilities == pytest.approx(log_p, **CLOSE)
            assert completion.ended == (len(body) < most)


@pytest.mark.parametrize("kind", ["ours", "one layer"])
def test_texts_are_cut_where_the_positions_end(kind):
    """40 positions: beside 36 tokens of prompt and the start there are 3."""
    task = make_task()
    model, dictionary = KINDS[kind](task), task.source_dictionary
    prompts = [text[1:] for text in random_texts(dictionary, [37, 2, 40, 20])]
    # So many that what is done stays in the batch for a while, and would go past the positions.
    prompts[2:3] = [[7]] * 7
    found = complete(model, dictionary, prompts, GREEDY, 30, None)
    assert [len(completions[0].tokens) for completions in found] == [3, *[30] * 8, 20]
    for prompt, (completion,) in zip(prompts, found, strict=True):
        most = len(completion.tokens)
        assert completion.tokens == greedy_by_hand(model, dictionary, prompt, most)
