"""Decoding step by step is the full forward pass: by plain modules with their cache, and packed."""

import pytest
import torch
from beams import EXACT, exact_model, make_parser, packed, plain, walk, words_and_symbols
from model_factory import make_task, random_batch


@pytest.fixture(scope="module")
def task():
    return make_task()


@pytest.fixture(scope="module")
def parser():
    return make_parser()


@pytest.fixture(params=[plain, packed])
def start(request):
    if request.param is packed:
        pytest.importorskip("vaswani_plugin.kernels")
    return request.param


def are_the_full_pass(task, changes, widths, start):
    """30 steps: room runs out several times; sentences leave, two at once and in another order."""
    model = exact_model(task, **changes)
    batch = random_batch(task, [(9, 1), (4, 1), (12, 1), (7, 1)])
    keeps = {5: [0, 1, 2, 3], 9: [2, 0, 3], 17: [1]}
    for actual, expected in walk(model, batch, 30, widths, keeps, start=start):
        torch.testing.assert_close(actual, expected, **EXACT)


@pytest.mark.parametrize("widths", [[1], [3, 5, 2]], ids=str)
@pytest.mark.parametrize(
    "changes", [{"d_k": 5, "d_v": 9, "attention_scale": "none"}, {"norm": "pre"}, {}], ids=str
)
def test_beams_are_the_full_forward_pass(task, widths, changes, start):
    are_the_full_pass(task, changes, widths, start)


@pytest.mark.parametrize("window", [1, 3, 100])
def test_beams_of_restricted_attention_are_too(task, window):
    """The packed step knows none."""
    are_the_full_pass(task, {"attention_window": window}, [3, 5, 2], plain)


def test_a_parsers_beams_are_the_full_forward_pass(parser, start):
    batch = words_and_symbols(parser, [(9, 1), (4, 1), (12, 1), (7, 1)])
    keeps = {5: [0, 1, 2, 3], 9: [2, 0, 3], 17: [1]}
    symbols = len(parser.decoder.dictionary)
    for actual, expected in walk(parser, batch, 30, [3, 5, 2], keeps, symbols, start):
        torch.testing.assert_close(actual, expected, **EXACT)
