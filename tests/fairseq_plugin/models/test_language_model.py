"""The language models with fairseq's interface: limits, rows, defaults."""

import itertools
import sys

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq_flags import training_config
from language_models import (
    make_language_model,
    make_lstm_model,
    make_one_layer_model,
    padded,
    random_texts,
)
from model_factory import make_task

from vaswani_plugin.fairseq_plugin.models.language_models import (
    LSTMLanguageModel,
    VaswaniLanguageModel,
)
from vaswani_plugin.model.architectures import LANGUAGE_MODELS, LSTM_LANGUAGE_MODELS
from vaswani_plugin.modules.positions import SinusoidalPositions

EXACT = {"atol": 1e-10, "rtol": 0}
TASK = ("--task", "vaswani_language_modeling")
# (layers, d_model, d_ff, heads) and the count with 1,000 rows, worked out below from the formula.
ROWS = {
    "vaswani_lm_base": (6, 512, 2048, 8),
    "vaswani_lm_tiny": (4, 128, 256, 4),
    "vaswani_lm_debug": (2, 32, 64, 4),
}
LSTM_ROWS = {"vaswani_lm_lstm": (400, 1150, 3), "vaswani_lm_lstm_tiny": (128, 256, 2)}


@pytest.fixture(scope="module")
def task():
    return make_task()


@pytest.mark.parametrize("make", [make_language_model, make_one_layer_model])
def test_too_long_a_text_is_refused_with_the_remedy(task, make):
    model = make(task, tokens_per_sample=10)
    model(torch.tensor(random_texts(task.source_dictionary, [10])))
    with pytest.raises(ValueError, match="11 tokens and the language model 10 pos.*-per-sample 10"):
        model(torch.tensor(random_texts(task.source_dictionary, [11])))


@pytest.mark.parametrize("name", [row.name for row in LANGUAGE_MODELS])
def test_row_through_parser_and_build(name):
    n, d, ff, heads = ROWS[name]
    task = make_task(1000 - 4)
    cfg = training_config(*TASK, "--arch", name)
    with torch.device("meta"):
        model = VaswaniLanguageModel.build_model(cfg.model, task)
    layer = 4 * (d * d + d) + 2 * d * ff + ff + d + 2 * 2 * d
    assert sum(p.numel() for p in model.parameters()) == n * layer + 1000 * d
    assert len(model.decoder.layers) == n
    assert {layer.self_attention.heads for layer in model.decoder.layers} == {heads}
    assert model.decoder.dropout == 0.1
    assert type(model.decoder.positions) is SinusoidalPositions
    assert ARCH_MODEL_REGISTRY[name] is VaswaniLanguageModel
    assert model.max_positions() == 1024


@pytest.mark.parametrize("make", [make_language_model, make_lstm_model, make_one_layer_model])
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_padding_is_inert(task, make, left):
    model, dictionary = make(task), task.source_dictionary
    texts = random_texts(dictionary, [9, 4, 12, 1])
    batch = padded(texts, dictionary.pad(), left)
    together, _ = model(batch)
    for row, text in enumerate(texts):
        own = together[row][batch[row].ne(dictionary.pad())]
        torch.testing.assert_close(own, model(torch.tensor([text]))[0][0], **EXACT)


@pytest.mark.parametrize("name", [row.name for row in LSTM_LANGUAGE_MODELS])
def test_row_of_an_lstm(name):
    """Parameters by formula; gradients limited to norm 0.25, labels not smoothed."""
    e, h, n = LSTM_ROWS[name]
    cfg = training_config(*TASK, "--arch", name)
    assert cfg.optimization.clip_norm == 0.25
    assert cfg.criterion.label_smoothing == 0.0
    with torch.device("meta"):
        model = LSTMLanguageModel.build_model(cfg.model, make_task(1000 - 4))
    widths = [e, *[h] * (n - 1), e]
    layers = sum(4 * o * (i + o + 2) for i, o in itertools.pairwise(widths))
    assert sum(p.numel() for p in model.parameters()) == 1000 * e + layers
    assert ARCH_MODEL_REGISTRY[name] is LSTMLanguageModel
    limited = training_config(*TASK, "--arch", name, "--clip-norm", "3")
    assert limited.optimization.clip_norm == 3.0  # the flag wins
    assert model.max_positions() == sys.maxsize
