"""What may come next, function by function, and in whole searches."""

import math
import random

import pytest
import torch
from search_setup import (
    EOS,
    PAD,
    as_function,
    make_generator,
    make_peaked_model,
    make_sample,
    make_translation_task,
    outputs_of,
)

from vaswani_plugin.fairseq_plugin.generator import allow_only
from vaswani_plugin.search.beam_search import Step
from vaswani_plugin.search.search import block_repeats

SYMBOLS = 12
SOURCES = [[9, 12, 7], [11, 5, 5, 10, 9], [14]]


def finite(log_p):
    """Which tokens may come, sentence by sentence and beam by beam."""
    return [[set(row.gt(-math.inf).nonzero()[:, 0].tolist()) for row in rows] for rows in log_p]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_no_ngram_comes_twice(n):
    rng = random.Random(n)
    for length in range(12):
        history = [[[rng.randrange(3) for _ in range(length)] for _ in range(4)] for _ in range(3)]
        log_p = torch.zeros(3, 4, 3)
        block_repeats(log_p, torch.tensor(history).view(3, 4, length), n)
        for sentence in range(3):
            for beam, tokens in enumerate(history[sentence]):
                there = {tuple(tokens[i : i + n]) for i in range(length - n + 1)}
                allowed = {
                    token
                    for token in range(3)
                    if length < n or (*tokens[length - n + 1 :], token) not in there
                }
                assert finite(log_p)[sentence][beam] == allowed


def test_allow_only_hands_over_sentence_and_tokens():
    """The sentences' numbers are those of the batch, of which some are done."""
    seen = []

    def choose(sentence, tokens):
        seen.append((sentence, tokens.tolist()))
        return [sentence, 5]

    log_p = torch.zeros(2, 2, 6)
    history = torch.tensor([[[3, 4], [4, 4]], [[3, 3], [5, 3]]])
    allow_only(choose)(log_p, Step(2, torch.tensor([1, 4]), history))
    assert seen == [(1, [3, 4]), (1, [4, 4]), (4, [3, 3]), (4, [5, 3])]
    assert finite(log_p) == [[{1, 5}] * 2, [{4, 5}] * 2]


def search(model, sources=SOURCES, prefix=None, **args):
    generator = make_generator(make_translation_task(SYMBOLS), [model], **args)
    return generator.generate([model], make_sample(sources), prefix_tokens=prefix)


@pytest.mark.parametrize("least", [0, 1, 4])
def test_min_len(least):
    model = make_peaked_model(SYMBOLS)
    with torch.no_grad():  # eager to end at once
        row = model.projection_weight[EOS]
        model.decoder.layers[-1].feed_forward_norm.norm.bias.add_(20 * row / row.norm() ** 2)
    shortest = [
        min(len(tokens) for tokens, _ in outputs_of(h)) for h in search(model, min_len=least)
    ]
    assert shortest == [least + 1] * 3


def test_temperature_and_unknown_words_penalty():
    """Both change log P of a token; recomputed by forced decoding."""
    model = make_peaked_model(SYMBOLS)
    unk = 3
    for hypotheses, source in zip(
        search(model, lenpen=0.0, temperature=1.7, unkpen=0.4, max_len_b=4), SOURCES, strict=True
    ):
        log_p = as_function([model], source)
        for tokens, score in outputs_of(hypotheses):
            total = 0.0
            for place, token in enumerate(tokens):
                row = (torch.tensor(log_p(tokens[:place])) / 1.7).log_softmax(0)
                total += row[token].item() - 0.4 * (token == unk)
            assert score == pytest.approx(total, abs=1e-4)


def test_a_prefix_that_holds_the_end_is_the_output():
    model = make_peaked_model(SYMBOLS)
    prefix = torch.tensor([[5, EOS], [6, 7], [PAD, PAD]])
    found = search(model, prefix=prefix, max_len_b=4)
    assert [tokens for tokens, _ in outputs_of(found[0])] == [(5, EOS)]
    assert all(tokens[:2] == (6, 7) for tokens, _ in outputs_of(found[1])) and len(found[1]) == 4
    alone = search(model, [SOURCES[2]], max_len_b=4)[0]
    assert [t for t, _ in outputs_of(found[2])] == [t for t, _ in outputs_of(alone)]


@pytest.mark.parametrize("options", [{}, {"diverse_beam_groups": 2}, {"sampling": True}], ids=str)
def test_a_function_sees_what_each_hypothesis_has_so_far(options):
    """Words in ascending order only, by fairseq's `prefix_allowed_tokens_fn`."""

    def ascending(sentence, tokens):
        latest = tokens[-1].item() if len(tokens) else 3
        return [EOS, *range(latest + 1, SYMBOLS + 4)]

    model = make_peaked_model(SYMBOLS)
    for hypotheses in search(model, prefix_allowed_tokens_fn=ascending, beam=4, **options):
        for tokens, score in outputs_of(hypotheses):
            words = tokens[:-1]
            assert list(words) == sorted(set(words)) and math.isfinite(score)


def test_a_prefix_may_repeat_words():
    prefix = torch.tensor([[6, 6], [7, PAD], [PAD, PAD]])
    options = {"no_repeat_ngram_size": 1, "max_len_b": 5}
    for given, hypotheses in zip(
        ((6, 6), (7,), ()),
        search(make_peaked_model(SYMBOLS), prefix=prefix, **options),
        strict=True,
    ):
        for tokens, _ in outputs_of(hypotheses):
            assert tokens[: len(given)] == given
            free = tokens[len(given) :]
            assert len(set(free)) == len(free) and not {*free} & {*given}
