"""The lecture notes' one-layer language model: its formulas in NumPy, and what they say of it."""

import math

import numpy as np
import paper_reference
import pytest
import torch
from language_models import make_one_layer_model, random_texts
from model_factory import make_task
from reference_weights import numbers

from vaswani_plugin.ancestors.one_layer import OneLayer
from vaswani_plugin.modules.attention import causal_mask
from vaswani_plugin.modules.embedding import sinusoids

T, D, HIDDEN = 9, 16, 12
CLOSE = {"rtol": 0, "atol": 1e-11}


@pytest.fixture(scope="module")
def task():
    return make_task()


@pytest.fixture(scope="module")
def model(task):
    return make_one_layer_model(task)


@pytest.fixture(scope="module")
def layer(model):
    return model.decoder.layer


@pytest.fixture(scope="module")
def x():
    """Embedded words without positions: P = 0."""
    return torch.randn(1, T, D, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def softmax(row: np.ndarray) -> np.ndarray:
    """exp(v_i) / sum_j exp(v_j)."""
    return np.exp(row) / sum(np.exp(row))


def test_the_formulas(task, model):
    """A word's prediction from the words so far, formula by formula, in NumPy."""
    (text,) = random_texts(task.source_dictionary, [T])
    layer = model.decoder.layer
    e, w_q, w_k, w_v, w_1, w_2 = map(
        numbers, (model.projection_weight, layer.w_q, layer.w_k, layer.w_v, layer.w_1, layer.w_2)
    )
    found = model(torch.tensor([text]))[0][0].softmax(dim=-1)
    for t in range(1, T + 1):
        x = e[text[:t]] + np.stack([paper_reference.sinusoid(i, D) for i in range(t)])
        values, queries, keys = x @ w_v, x @ w_q, x @ w_k
        h = np.stack([softmax(row) for row in queries @ keys.T / math.sqrt(HIDDEN)]) @ values
        output = np.maximum(np.maximum(h @ w_1, 0) @ w_2, 0)
        # The mask lets position t see what a text of t words sees at its last position.
        np.testing.assert_allclose(numbers(found[t - 1]), softmax(output[-1] @ e.T), **CLOSE)


@pytest.mark.parametrize("masked", [False, True])
def test_without_projections_the_words_are_averaged_by_their_dot_products(x, masked):
    """score(x_i, x_j) = x_i . x_j; alpha its softmax over j <= i; y_i = sum_j alpha_ij x_j."""
    layer = OneLayer(D, D, 20, projections=False).double()
    assert {name for name, _ in layer.named_parameters()} == {"w_1", "w_2"}
    h, weights = layer.hidden_states(x, causal_mask(T, T) if masked else None)
    words = numbers(x[0])
    for i in range(T):
        seen = words[: i + 1] if masked else words
        alpha = softmax(np.array([words[i] @ word for word in seen]))
        np.testing.assert_allclose(numbers(weights[0, i])[: len(seen)], alpha, **CLOSE)
        np.testing.assert_allclose(numbers(h[0, i]), alpha @ seen, **CLOSE)


@pytest.mark.parametrize("broken_by", ["nothing", "mask", "positions"])
def test_the_permutation_lemma(layer, x, broken_by):
    """Without positions and mask, x -> Px gives h -> Ph; with either one orders differ."""
    order = np.roll(np.arange(T), 1)
    mask = causal_mask(T, T) if broken_by == "mask" else None
    p = sinusoids(torch.arange(T), D) if broken_by == "positions" else torch.zeros(T, D)
    h, weights = layer.hidden_states(x + p, mask)
    np.testing.assert_allclose(numbers(weights).sum(axis=-1), np.ones((1, T)), **CLOSE)
    permuted, _ = layer.hidden_states(x[:, order] + p, mask)
    difference = np.abs(numbers(permuted[0]) - numbers(h[0])[order]).max()
    assert difference < 1e-11 if broken_by == "nothing" else difference > 1e-2


@pytest.mark.parametrize("positions", [False, True])
def test_m_is_shift_invariant_without_positions(layer, x, positions):
    """Translate the sequence by 4: entry (i, j) of M goes to (i + 4, j + 4)."""
    p = positions * sinusoids(torch.arange(T), D)
    translated = torch.cat((x[:, 5:], x[:, :-4]), dim=1)
    sides = [layer.queries_keys_values(y + p) for y in (x, translated)]
    m, shifted = (numbers(q @ k.transpose(-2, -1))[0] for q, k, _ in sides)
    difference = np.abs(shifted[4:, 4:] - m[:-4, :-4]).max()
    assert difference > 1e-2 if positions else difference < 1e-11


def test_dropout_trains_and_evaluation_does_without(task):
    model = make_one_layer_model(task, dropout=0.5)
    batch = torch.tensor(random_texts(task.source_dictionary, [8]))
    again = model.decoder(batch, encoder_out=None, incremental_state={})  # as fairseq's search
    assert model(batch)[0].equal(again[0])
    model.train()
    assert not model(batch)[0].equal(model(batch)[0])
