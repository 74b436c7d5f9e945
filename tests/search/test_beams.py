"""The search over plain modules, with their cache, is the full forward pass."""

import pytest
import torch
from beams import EXACT, exact_model, make_parser, walk, words_and_symbols
from model_factory import make_task, random_batch


@pytest.fixture(scope="module")
def task():
    return make_task()


@pytest.fixture(params=[0, 1, 3, 100], ids=lambda r: f"window-{r}")
def model(request, task):
    return exact_model(task, attention_window=request.param)


@pytest.fixture(scope="module")
def parser():
    return make_parser()


@pytest.mark.parametrize("widths", [[1], [4], [3, 5, 2]], ids=str)
@pytest.mark.parametrize("sizes", [{}, {"d_k": 5, "d_v": 9}], ids=str)
def test_beams_are_the_full_forward_pass(task, model, widths, sizes):
    """30 steps: room runs out several times; sentences leave, two at once and in another order."""
    if sizes:
        model = exact_model(task, attention_window=model.decoder.window, **sizes)
    batch = random_batch(task, [(9, 1), (4, 1), (12, 1), (7, 1)])
    keeps = {5: [0, 1, 2, 3], 9: [2, 0, 3], 17: [1]}
    for actual, expected in walk(model, batch, 30, widths, keeps):
        torch.testing.assert_close(actual, expected, **EXACT)


@pytest.mark.parametrize("widths", [[4], [3, 5, 2]], ids=str)
def test_a_parsers_beams_are_the_full_forward_pass(parser, widths):
    batch = words_and_symbols(parser, [(9, 1), (4, 1), (12, 1), (7, 1)])
    keeps = {5: [0, 1, 2, 3], 9: [2, 0, 3], 17: [1]}
    symbols = len(parser.decoder.dictionary)
    for actual, expected in walk(parser, batch, 30, widths, keeps, symbols):
        torch.testing.assert_close(actual, expected, **EXACT)
