"""The LSTM language model against NumPy loops, and its five kinds of dropout."""

from functools import partial

import meta
import numpy as np
import pytest
import recurrent_reference as reference
import torch
from recurrent_models import lstm_weights
from reference_weights import default_dtype, numbers, shake

from vaswani_plugin.ancestors.recurrent_language_model import (
    Dropouts,
    RecurrentLanguageModel,
    locked_dropout,
    word_dropout,
)

V, E, H, N = 13, 6, 9, 3
EXACT = {"atol": 1e-12, "rtol": 0}


def make_model(layers: int = N, **dropouts: float) -> RecurrentLanguageModel:
    torch.manual_seed(1)
    with default_dtype(torch.float64):
        model = RecurrentLanguageModel(V, 1, E, H, layers, Dropouts(**dropouts))
        return shake(model, size=0.5).eval()


def texts(*shape: int, seed: int = 2) -> torch.Tensor:
    return torch.randint(2, V, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("layers", [1, 3])
def test_logits_are_those_of_the_loops(layers):
    model = make_model(layers)
    (text,) = texts(1, 8)
    embedding = numbers(model.embedding.weight)
    weights = [lstm_weights(lstm)[0] for lstm in model.lstms]
    read = [E**0.5 * embedding[word] for word in text]
    outputs, state = reference.lstm(read, weights, reference.zeros(weights))
    expected = np.stack(outputs) @ embedding.T
    np.testing.assert_allclose(numbers(model(text[None])[0]), expected, **EXACT)
    _, found = model.read(text[None])
    for (h, c), (expected_h, expected_c) in zip(found, state, strict=True):
        np.testing.assert_allclose(numbers(h[0]), expected_h, **EXACT)
        np.testing.assert_allclose(numbers(c[0]), expected_c, **EXACT)


@pytest.mark.parametrize("pieces", [[1] * 9, [2, 6, 1]], ids=str)
def test_reading_on_from_the_states_is_reading_at_once(pieces):
    model, text = make_model(), texts(3, 9)
    whole, last = model.read(text)
    found, states = [], None
    for piece in text.split(pieces, dim=1):
        features, states = model.read(piece, states)
        found.append(features)
    torch.testing.assert_close(torch.cat(found, dim=1), whole, **EXACT)
    for ours, theirs in zip(states, last, strict=True):
        torch.testing.assert_close(ours, theirs, **EXACT)


def test_states_are_those_after_each_texts_length():
    model, text = make_model(), texts(4, 9)
    lengths = torch.tensor([9, 3, 1, 6])
    features, states = model.read(text, None, lengths)
    for row, length in enumerate(lengths):
        alone, after = model.read(text[row, None, :length])
        torch.testing.assert_close(features[row, :length], alone[0], **EXACT)
        for (h, c), (own_h, own_c) in zip(states, after, strict=True):
            torch.testing.assert_close(h[row], own_h[0], **EXACT)
            torch.testing.assert_close(c[row], own_c[0], **EXACT)


def test_locked_dropout_drops_the_same_elements_in_all_steps():
    x = torch.ones(40, 7, 50, dtype=torch.float64)
    torch.manual_seed(3)
    y = locked_dropout(x, 0.3, training=True)
    assert (y == y[:, :1]).all()
    assert set(y.unique().tolist()) == {0.0, 1 / 0.7}
    assert not (y[0] == y[1]).all()
    assert y.eq(0).double().mean() == pytest.approx(0.3, abs=0.05)
    assert locked_dropout(x, 0.3, training=False) is x


def test_word_dropout_drops_a_word_wherever_it_stands():
    torch.manual_seed(3)
    y = word_dropout(torch.ones(3, 120, 4), torch.arange(60).repeat(3, 2), 60, 0.4, training=True)
    by_word = y.reshape(3, 2, 60, 4)
    assert (by_word == by_word[:1, :1, :, :1]).all()
    assert y.eq(0).double().mean() == pytest.approx(0.4, abs=0.2)
    assert y.max() == pytest.approx(1 / 0.6)


def test_dropped_weights_are_those_from_state_to_state(monkeypatch):
    """The loops with the weights that were drawn give the same; the gradient passes by them."""
    model, text = make_model(2, weights=0.5).train(), texts(1, 6)
    drawn, dropout = [], torch.nn.functional.dropout

    def spy(x, p, *rest):
        drawn.append(dropout(x, p, *rest))
        return drawn[-1]

    monkeypatch.setattr(torch.nn.functional, "dropout", spy)
    features, _ = model.read(text)
    assert [tuple(u.shape) for u in drawn] == [(4 * H, H), (4 * E, E)]
    weights = [
        {**lstm_weights(lstm)[0], "U": numbers(u)}
        for lstm, u in zip(model.lstms, drawn, strict=True)
    ]
    embedding = numbers(model.embedding.weight)
    read = [E**0.5 * embedding[w] for w in text[0]]
    outputs, _ = reference.lstm(read, weights, reference.zeros(weights))
    np.testing.assert_allclose(numbers(features[0]), np.stack(outputs), **EXACT)
    features.sum().backward()
    gradient = model.lstms[0].weight_hh_l0.grad
    assert (gradient[drawn[0] == 0] == 0).all() and gradient[drawn[0] != 0].abs().min() > 0


@pytest.mark.parametrize("kind", Dropouts._fields)
def test_each_dropout_trains_and_evaluation_does_without(kind):
    model, text = make_model(**{kind: 0.5}), texts(4, 8)
    assert model(text).equal(make_model()(text))
    model.train()
    assert not model(text).equal(model(text))
    single = make_model(1, **{kind: 0.5}).train()  # `hidden` is between the layers
    assert single(text).equal(single(text)) == (kind == "hidden")


def test_a_recurrent_language_model_reads_on_from_its_states():
    family, row = meta.ROWS["vaswani_lm_lstm_tiny"]
    task = meta.make_meta_task(family)
    decoder = meta.make_meta_model(family, row, task).eval().decoder
    states, tokens = None, partial(torch.empty, dtype=torch.long, device=meta.META)
    with meta.launches_only(), torch.no_grad():
        for _ in range(8):
            features, states = decoder.read(tokens(4, 1), states)
            assert decoder.project(features[:, 0]).shape == (4, len(task.target_dictionary))
            states = [(h[tokens(4)], c[tokens(4)]) for h, c in states]
