"""Completion against loops over the full model, and enumeration of every text."""

import itertools
import math
from functools import cache
from typing import NamedTuple

import pytest
import torch
from language_models import (
    make_language_model,
    make_lstm_model,
    random_texts,
    text_model,
)
from model_factory import make_task

from vaswani_plugin.inference import completion as completing
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.search.text_models import RereadBeams, TextModel

GREEDY = SearchOptions(beam=1, lenpen=0.0, min_len=0)
LENGTHS = [5, 1, 9, 3]
CLOSE = {"rel": 0, "abs": 1e-9}


@pytest.fixture(scope="module")
def task():
    return make_task()


@pytest.fixture(scope="module")
def dictionary(task):
    return task.source_dictionary


@pytest.fixture(scope="module")
def model(task):
    return make_language_model(task)


@pytest.fixture(scope="module")
def prompts(dictionary):
    """Without the end of sentence before them; the second one is empty."""
    return [text[1:] for text in random_texts(dictionary, LENGTHS)]


class Reread(TextModel):
    """A model of which every step reads the whole text again."""

    def prepare(self):
        def start(prompts, beam, with_attention):
            return RereadBeams(self, prompts.tokens, torch.as_tensor(prompts.lengths))

        return start, False


def complete(model, dictionary, *arguments, **options):
    searched = model if isinstance(model, TextModel) else text_model(model)
    found = completing.complete(searched, dictionary, *arguments, **options)
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


@pytest.mark.parametrize(("fast", "window"), [(True, 0), (True, 2), (False, 0)])
def test_a_wide_beam_is_enumeration(fast, window):
    """Of three words and the end, every text of up to 3 words; cut ones don't pay for an end."""
    task = make_task(100)
    dictionary = task.source_dictionary
    ours = make_language_model(task, seed=3, attention_window=window)
    words = [4, 5, 6]
    banned = tuple(dictionary[n] for n in range(len(dictionary)) if n not in (1, 2, *words))
    prompts = [[9, 4, 5], [], [8] * 7]
    most, alpha = 3, 0.6
    options = SearchOptions(beam=60, lenpen=alpha, min_len=0)
    model = ours if fast else text_model(ours, Reread)
    found = complete(model, dictionary, prompts, options, most, dictionary.eos(), banned)
    for prompt, completions in zip(prompts, found, strict=True):

        @cache
        def after(*body, prompt=prompt):
            return next_log_p(ours, [dictionary.eos(), *prompt, *body])

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


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "reread"])
def test_texts_are_cut_where_the_positions_end(model, dictionary, fast):
    """40 positions: beside 36 tokens of prompt and the start there are 3."""
    prompts = [text[1:] for text in random_texts(dictionary, [37, 2, 40, 20])]
    with pytest.raises(ValueError, match="prompt 3 has 41 tokens, .* none of the model's 40"):
        complete(model, dictionary, [*prompts[:2], [4] * 40], GREEDY, 9, None)
    # So many that what is done stays in the batch for a while, and would go past the positions.
    prompts[2:3] = [[7]] * 7
    chosen = model if fast else text_model(model, Reread)
    found = complete(chosen, dictionary, prompts, GREEDY, 30, None)
    assert [len(completions[0].tokens) for completions in found] == [3, *[30] * 8, 20]
    for prompt, (completion,) in zip(prompts, found, strict=True):
        most = len(completion.tokens)
        assert completion.tokens == greedy_by_hand(model, dictionary, prompt, most)


def test_the_lstm_completes_from_its_states_as_by_reading_again(task, dictionary, prompts):
    """Prompts of several lengths; hypotheses that change places, and texts that leave."""
    model = make_lstm_model(task, seed=2)
    with torch.no_grad():
        for weight in model.parameters():  # so that tokens differ
            weight.mul_(3.0 if weight.dim() > 1 else 1.0)
    options = SearchOptions(beam=3, lenpen=1.0, min_len=0)
    endless = complete(model, dictionary, prompts, options, 9, None)
    stop = endless[0][0].tokens[2]  # so that texts end at various lengths
    found = complete(model, dictionary, prompts, options, 9, stop)
    expected = complete(text_model(model, Reread), dictionary, prompts, options, 9, stop)
    for own, other in zip(found, expected, strict=True):
        assert [c.tokens for c in own] == [c.tokens for c in other]
        for one, two in zip(own, other, strict=True):
            assert one.log_probabilities == pytest.approx(two.log_probabilities, abs=1e-5)
    assert len({len(completions[0].tokens) for completions in found}) > 1
