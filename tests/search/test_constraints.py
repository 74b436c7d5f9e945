"""What may come next, function by function, and in whole searches."""

import math
import random

import pytest
import search_setup as setup
import torch

from vaswani_plugin.search.search import block_repeats

SYMBOLS = 12
SOURCES = [[9, 12, 7], [11, 5, 5, 10, 9], [14]]


def finite(log_p):
    """Which tokens may come, sentence by sentence and beam by beam."""
    return [[set(row.gt(-math.inf).nonzero()[:, 0].tolist()) for row in rows] for rows in log_p]


@pytest.mark.parametrize("n", [1, 2, 4])
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


def search(model, sources=SOURCES, prefix=None, **args):
    generator = setup.make_generator(setup.make_translation_task(SYMBOLS), [model], **args)
    return generator.generate([model], setup.make_sample(sources), prefix_tokens=prefix)


def test_a_prefix_that_holds_the_end_is_the_output():
    model = setup.make_peaked_model(SYMBOLS)
    prefix = torch.tensor([[5, setup.EOS], [6, 7], [setup.PAD, setup.PAD]])
    found = search(model, prefix=prefix, max_len_b=4)
    assert [tokens for tokens, _ in setup.outputs_of(found[0])] == [(5, setup.EOS)]
    assert [t[:2] for t, _ in setup.outputs_of(found[1])] == [(6, 7)] * 4
    alone = search(model, [SOURCES[2]], max_len_b=4)[0]
    assert [t for t, _ in setup.outputs_of(found[2])] == [t for t, _ in setup.outputs_of(alone)]


def test_a_prefix_may_repeat_words():
    prefix = torch.tensor([[6, 6], [7, setup.PAD], [setup.PAD, setup.PAD]])
    options = {"no_repeat_ngram_size": 1, "max_len_b": 5}
    for given, hypotheses in zip(
        ((6, 6), (7,), ()),
        search(setup.make_peaked_model(SYMBOLS), prefix=prefix, **options),
        strict=True,
    ):
        for tokens, _ in setup.outputs_of(hypotheses):
            assert tokens[: len(given)] == given
            free = tokens[len(given) :]
            assert len(set(free)) == len(free) and not {*free} & {*given}
