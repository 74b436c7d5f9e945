"""The lecture notes' one-layer language model: its formulas in NumPy, and what they say of it."""

import math

import numpy as np
import paper_reference
import pytest
import torch
import torch.nn.functional as F
from language_models import make_one_layer_model, random_texts
from model_factory import make_task
from reference_weights import numbers

from vaswani_plugin.modules.masks import causal_mask
from vaswani_plugin.modules.one_layer import OneLayer
from vaswani_plugin.modules.positions import sinusoids

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
        numbers,
        (model.projection_weight, layer.w_q, layer.w_k, layer.w_v, layer.w_1, layer.w_2),
    )
    found = model(torch.tensor([text]))[0][0].softmax(dim=-1)
    for t in range(1, T + 1):
        x = e[text[:t]] + np.stack([paper_reference.sinusoid(i, D) for i in range(t)])
        values, queries, keys = x @ w_v, x @ w_q, x @ w_k
        weights = np.stack([softmax(row) for row in queries @ keys.T / math.sqrt(HIDDEN)])
        h = weights @ values
        output = np.maximum(np.maximum(h @ w_1, 0) @ w_2, 0)
        # The mask lets position t see what a text of t words sees at its last position.
        np.testing.assert_allclose(numbers(found[t - 1]), softmax(output[-1] @ e.T), **CLOSE)


def test_it_has_no_other_parameters(model):
    names = {name.rpartition(".")[2] for name, _ in model.named_parameters()}
    assert names == {"weight", "w_q", "w_k", "w_v", "w_1", "w_2"}
    of_attention, of_network = 3 * D * HIDDEN, HIDDEN * 20 + 20 * D
    assert sum(p.numel() for p in model.parameters()) == 27 * D + of_attention + of_network


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
    with pytest.raises(ValueError, match="--d-hidden 7 must be --d-model"):
        OneLayer(D, 7, 20, projections=False)


@pytest.mark.parametrize("mask", [None, causal_mask(T, T)], ids=["all", "masked"])
def test_each_row_of_the_softmax_sums_to_1(layer, x, mask):
    _, weights = layer.hidden_states(x, mask)
    np.testing.assert_allclose(numbers(weights).sum(axis=-1), np.ones((1, T)), **CLOSE)
    assert (weights >= 0).all()
    if mask is not None:
        assert not np.triu(numbers(weights)[0], 1).any()


def test_the_permutation_lemma(layer, x):
    """softmax(PQ (PK)^T) PV = P softmax(QK^T) V; without positions and mask, x -> Px: h -> Ph."""
    order = np.random.default_rng(4).permutation(T)
    permutation = np.eye(T)[order]
    q, k, v = np.random.default_rng(5).normal(size=(3, T, D))

    def sigma(matrix):
        return np.stack([softmax(row) for row in matrix])

    left = sigma(permutation @ q @ (permutation @ k).T) @ (permutation @ v)
    np.testing.assert_allclose(left, permutation @ (sigma(q @ k.T) @ v), **CLOSE)
    h, _ = layer.hidden_states(x)
    permuted, _ = layer.hidden_states(x[:, order])
    np.testing.assert_allclose(numbers(permuted[0]), permutation @ numbers(h[0]), **CLOSE)


@pytest.mark.parametrize("broken_by", ["mask", "positions"])
def test_mask_and_positions_break_the_lemma(layer, x, broken_by):
    """Otherwise the test above would show nothing, and the model could not tell orders apart."""
    order = np.roll(np.arange(T), 1)
    mask = causal_mask(T, T) if broken_by == "mask" else None
    p = sinusoids(torch.arange(T), D) if broken_by == "positions" else torch.zeros(T, D)
    h, _ = layer.hidden_states(x + p, mask)
    permuted, _ = layer.hidden_states(x[:, order] + p, mask)
    assert np.abs(numbers(permuted[0]) - numbers(h[0])[order]).max() > 1e-2


@pytest.mark.parametrize("tau", [1, 4])
def test_m_is_shift_invariant_without_positions(layer, x, tau):
    """Translate the sequence by tau: entry (i, j) of M goes to (i + tau, j + tau)."""
    others = torch.randn(1, tau, D, generator=torch.Generator().manual_seed(3)).double()
    translated = torch.cat((others, x[:, :-tau]), dim=1)
    m, shifted = numbers(layer.scores(x)[0]), numbers(layer.scores(translated)[0])
    np.testing.assert_allclose(m, numbers(x @ layer.w_q)[0] @ numbers(x @ layer.w_k)[0].T, **CLOSE)
    for i in range(T - tau):
        for j in range(T - tau):
            assert shifted[i + tau, j + tau] == pytest.approx(m[i, j], abs=1e-11)
    p = sinusoids(torch.arange(T), D)
    with_positions = numbers(layer.scores(translated + p)[0])[tau:, tau:]
    of_untranslated = numbers(layer.scores(x + p)[0])[:-tau, :-tau]
    assert np.abs(with_positions - of_untranslated).max() > 1e-2


@pytest.mark.parametrize("tau", [1, 4])
def test_h_goes_with_the_words_where_all_stay_in_bounds(layer, x, tau):
    h, _ = layer.hidden_states(x)
    shifted, _ = layer.hidden_states(x.roll(tau, dims=1))
    np.testing.assert_allclose(numbers(shifted[0]), np.roll(numbers(h[0]), tau, axis=0), **CLOSE)


def test_training_on_all_t_at_once_is_predicting_each_t_alone(task):
    """The loss, and the gradient of every parameter."""
    dictionary = task.source_dictionary
    (text,) = random_texts(dictionary, [T + 1])
    words, targets = torch.tensor([text[:-1]]), torch.tensor(text[1:])
    model = make_one_layer_model(task).train()
    at_once = F.cross_entropy(model(words)[0][0], targets, reduction="sum")
    gradient = torch.autograd.grad(at_once, list(model.parameters()))
    total = torch.zeros((), dtype=torch.float64)
    for t in range(T):
        last = model(words[:, : t + 1])[0][0, -1]  # "only the last node is used for prediction"
        total = total + F.cross_entropy(last[None], targets[t, None])
    torch.testing.assert_close(total, at_once, rtol=0, atol=1e-10)
    one_by_one = torch.autograd.grad(total, list(model.parameters()))
    for one, other in zip(one_by_one, gradient, strict=True):
        assert other.abs().max() > 1e-3
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def test_dropout_trains_and_evaluation_does_without(task):
    model = make_one_layer_model(task, dropout=0.5)
    batch = torch.tensor(random_texts(task.source_dictionary, [8]))
    assert model(batch)[0].equal(model(batch)[0])
    model.train()
    assert not model(batch)[0].equal(model(batch)[0])


@pytest.mark.parametrize(
    ("sizes", "flag"), [((0, 1, 1), "d-model"), ((2, 0, 1), "d-hidden"), ((2, 1, 0), "d-ff")]
)
def test_bad_sizes_are_refused(sizes, flag):
    with pytest.raises(ValueError, match=f"--{flag} is 0"):
        OneLayer(*sizes)
