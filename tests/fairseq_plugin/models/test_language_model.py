"""The language models with fairseq's interface: limits, rows, defaults."""

import sys

import language_models as models
import pytest
import torch
from fairseq.models import MODEL_REGISTRY
from fairseq_flags import training_config
from model_factory import make_task

from vaswani_plugin.model.families import ELSEWHERE

EXACT = {"atol": 1e-10, "rtol": 0}
ROWS = [
    # 6 layers of 3,152,384; 3 LSTMs of 4 o (i + o + 2) with i, o from 400, 1150, 1150, 400
    ("vaswani_lm", "vaswani_lm_base", 18_914_304 + 1000 * 512, 1024),
    ("vaswani_lm_lstm", "vaswani_lm_lstm", 20_211_600 + 1000 * 400, sys.maxsize),
]


@pytest.mark.parametrize(
    ("name", "row", "parameters", "positions"), ROWS if ELSEWHERE else ROWS[:1]
)
def test_row_through_parser_and_build(name, row, parameters, positions):
    cfg = training_config("--task", "vaswani_language_modeling", "--arch", row)
    with torch.device("meta"):
        model = MODEL_REGISTRY[name].build_model(cfg.model, make_task(1000 - 4))
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert model.max_positions() == positions
    assert cfg.criterion.label_smoothing == 0  # it "hurts perplexity"


@pytest.mark.parametrize("make", models.MAKERS.values(), ids=models.MAKERS)
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_padding_is_inert(task, make, left):
    model, dictionary = make(task), task.source_dictionary
    texts = models.random_texts(dictionary, [9, 4, 12, 1])
    batch = models.padded(texts, dictionary.pad(), left)
    together, _ = model(batch)
    for row, text in enumerate(texts):
        own = together[row][batch[row].ne(dictionary.pad())]
        torch.testing.assert_close(own, model(torch.tensor([text]))[0][0], **EXACT)
