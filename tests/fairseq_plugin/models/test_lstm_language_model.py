"""`vaswani_lm_lstm` with fairseq's interface: padding, caches, rows, defaults."""

import itertools
import sys

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq_flags import training_config
from language_models import make_lstm_model, padded, random_texts
from model_factory import make_task

from vaswani_plugin.fairseq_plugin.models.language_models import LSTMLanguageModel
from vaswani_plugin.model.architectures import LSTM_LANGUAGE_MODELS

EXACT = {"atol": 1e-11, "rtol": 0}
TASK = ("--task", "vaswani_language_modeling")
ROWS = {"vaswani_lm_lstm": (400, 1150, 3), "vaswani_lm_lstm_tiny": (128, 256, 2)}


@pytest.fixture(scope="module")
def task():
    return make_task()


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_padding_is_inert(task, left):
    model, dictionary = make_lstm_model(task), task.source_dictionary
    texts = random_texts(dictionary, [9, 4, 12, 1])
    batch = padded(texts, dictionary.pad(), left)
    together, _ = model(batch)
    for row, text in enumerate(texts):
        own = together[row][batch[row].ne(dictionary.pad())]
        torch.testing.assert_close(own, model(torch.tensor([text]))[0][0], **EXACT)


def test_incremental_is_full(task):
    """A token at a time, after a prompt; then in another order of the texts."""
    model = make_lstm_model(task)
    batch = torch.tensor(random_texts(task.source_dictionary, [11, 11, 11]))
    full, _ = model(batch)
    state: dict = {}
    for end in itertools.chain([4], range(5, 10)):
        piece, _ = model.decoder(batch[:, :end], incremental_state=state)
        torch.testing.assert_close(piece, full[:, end - piece.size(1) : end], **EXACT)
        assert piece.size(1) == (4 if end == 4 else 1)
    order = torch.tensor([2, 0])
    model.decoder.reorder_incremental_state_scripting(state, order)
    piece, _ = model.decoder(batch[order, :10], incremental_state=state)
    torch.testing.assert_close(piece, full[order, 9:10], **EXACT)


@pytest.mark.parametrize("name", ROWS)
def test_row_through_parser_and_build(name):
    """Parameters by formula; gradients limited to norm 0.25, labels not smoothed."""
    e, h, n = ROWS[name]
    cfg = training_config(*TASK, "--arch", name)
    assert cfg.optimization.clip_norm == 0.25
    assert cfg.criterion.label_smoothing == 0.0
    with torch.device("meta"):
        model = LSTMLanguageModel.build_model(cfg.model, make_task(1000 - 4))
    widths = [e, *[h] * (n - 1), e]
    layers = sum(4 * o * (i + o + 2) for i, o in itertools.pairwise(widths))
    assert sum(p.numel() for p in model.parameters()) == 1000 * e + layers
    assert ARCH_MODEL_REGISTRY[name] is LSTMLanguageModel
    assert model.max_positions() == sys.maxsize


def test_every_row_is_tested_and_the_flag_wins():
    assert {row.name for row in LSTM_LANGUAGE_MODELS} == set(ROWS)
    cfg = training_config(*TASK, "--arch", "vaswani_lm_lstm_tiny", "--clip-norm", "3")
    assert cfg.optimization.clip_norm == 3.0
