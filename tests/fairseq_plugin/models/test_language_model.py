"""The language model against the NumPy reference, and what must not change its predictions."""

import itertools
import math

import numpy as np
import paper_reference
import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq_flags import training_config
from language_models import make_language_model, padded, random_texts
from model_factory import make_task
from reference_weights import layer_weights_of, numbers

from vaswani_plugin.fairseq_plugin.models.language_models import OneLayerModel, VaswaniLanguageModel
from vaswani_plugin.model.architectures import LANGUAGE_MODELS
from vaswani_plugin.modules.positions import SinusoidalPositions

EXACT = {"atol": 1e-10, "rtol": 0}
TASK = ("--task", "vaswani_language_modeling")
LENGTHS = [9, 4, 12, 1]
# (layers, d_model, d_ff, heads) and the count with 1,000 rows, worked out below from the formula.
ROWS = {
    "vaswani_lm_base": (6, 512, 2048, 8),
    "vaswani_lm_tiny": (4, 128, 256, 4),
    "vaswani_lm_debug": (2, 32, 64, 4),
}


@pytest.fixture(scope="module")
def task():
    return make_task()


@pytest.fixture(params=[0, 1, 3, 100], ids=lambda r: f"window-{r}")
def model(request, task):
    return make_language_model(task, attention_window=request.param)


def test_logits_are_those_of_the_formulas(task):
    """Embedding x sqrt(D) + sinusoids, masked post-norm layers, the embedding transposed."""
    model = make_language_model(task)
    (text,) = random_texts(task.source_dictionary, [9])
    embedding = numbers(model.projection_weight)
    x = np.stack([math.sqrt(16) * embedding[token] for token in text])
    x += np.stack([paper_reference.sinusoid(t, 16) for t in range(len(text))])
    for layer in model.decoder.layers:
        mask = paper_reference.past_only(len(text))
        x = paper_reference.encoder_layer(x, layer_weights_of(layer), 1e-6, mask)
    logits, _ = model(torch.tensor([text]))
    np.testing.assert_allclose(numbers(logits[0]), x @ embedding.T, atol=1e-9)
    assert model.decoder.projection is model.decoder.embedding


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_padding_is_inert(task, model, left):
    dictionary = task.source_dictionary
    texts = random_texts(dictionary, LENGTHS)
    batch = padded(texts, dictionary.pad(), left)
    together, _ = model(batch)
    for row, text in enumerate(texts):
        alone, _ = model(torch.tensor([text]))
        own = together[row][batch[row].ne(dictionary.pad())]
        torch.testing.assert_close(own, alone[0], **EXACT)
    assert together.isfinite().all()


def test_the_future_is_inert(task, model):
    (text,) = random_texts(task.source_dictionary, [12])
    before, _ = model(torch.tensor([text]))
    changed = [*text[:7], *random_texts(task.source_dictionary, [6], seed=8)[0][1:]]
    after, _ = model(torch.tensor([changed]))
    torch.testing.assert_close(after[:, :7], before[:, :7], **EXACT)
    assert (after[:, 7] - before[:, 7]).abs().max() > 1e-3


@pytest.mark.parametrize("pieces", [[1] * 12, [1, 3, 1, 7], [4, 8], [12]], ids=str)
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_incremental_is_full(task, model, pieces, left):
    dictionary = task.source_dictionary
    batch = padded(random_texts(dictionary, [9, 4, 12]), dictionary.pad(), left)
    full, _ = model(batch)
    state, begin = {}, 0
    for end in itertools.accumulate(pieces):
        piece, _ = model.decoder(batch[:, :end], incremental_state=state)
        real = batch[:, begin:end].ne(dictionary.pad())
        torch.testing.assert_close(piece[real], full[:, begin:end][real], **EXACT)
        begin = end
    order = torch.tensor([2, 0])
    model.decoder.reorder_incremental_state_scripting(state, order)
    torch.testing.assert_close(
        model.decoder(torch.cat((batch, batch[:, :1]), 1)[order], incremental_state=state)[0],
        model(torch.cat((batch, batch[:, :1]), 1)[order])[0][:, -1:],
        **EXACT,
    )


def test_attention_weights(task, model):
    (text,) = random_texts(task.source_dictionary, [7])
    _, extra = model(torch.tensor([text]), need_weights=True)
    assert len(extra["self_attention"]) == 3
    for weights in extra["self_attention"]:
        assert weights.shape == (1, 4, 7, 7)
        torch.testing.assert_close(weights.sum(-1), torch.ones(1, 4, 7).double(), **EXACT)
        assert not weights.triu(1).any()


def test_too_long_a_text_is_refused_with_the_remedy(task):
    model = make_language_model(task, tokens_per_sample=10)
    model(torch.tensor(random_texts(task.source_dictionary, [10])))
    with pytest.raises(ValueError, match="11 tokens and the language model 10 pos.*-per-sample 10"):
        model(torch.tensor(random_texts(task.source_dictionary, [11])))


@pytest.mark.parametrize(
    ("changes", "limit"),
    [({}, 40), ({"add_bos_token": True}, 41), ({"max_target_positions": 99}, 99)],
    ids=str,
)
def test_position_limit(task, changes, limit):
    assert make_language_model(task, **changes).max_positions() == limit


@pytest.mark.parametrize("name", ROWS)
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


def test_every_row_is_tested():
    assert {row.name for row in LANGUAGE_MODELS} == set(ROWS)
    assert MODEL_REGISTRY["vaswani_lm_one_layer"] is OneLayerModel


def test_two_dictionaries_are_refused(task):
    task = make_task()
    task.target_dictionary = make_task(5).target_dictionary
    with pytest.raises(ValueError, match="--output-dictionary-size"):
        make_language_model(task)
