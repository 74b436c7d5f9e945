"""LSTM stacks and attention equal the NumPy loops; padding is not read (ancestors/recurrent.py)."""

import warnings

import numpy as np
import pytest
import recurrent_reference as reference
import torch
from recurrent_models import lstm_weights
from reference_weights import default_dtype, numbers, shake

from vaswani_plugin.ancestors import recurrent

EXACT = {"atol": 1e-12, "rtol": 0}
WIDTH, LAYERS = 6, 3


def exact(make, *args, **options):
    with default_dtype(torch.float64):
        return shake(make(*args, **options), size=0.5).eval()


def random(*shape, seed=2):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def encode(encoder, x, padding):
    return encoder(x, padding, recurrent.lengths_on_cpu(padding))


@pytest.mark.parametrize("ways", [{}, {"reverse": True}, {"both_ways": True}], ids=str)
def test_encoder_is_the_references(ways):
    encoder = exact(recurrent.RecurrentEncoder, WIDTH, LAYERS, 0.0, **ways)
    x = random(1, 7, WIDTH)
    states, (h, c) = encode(encoder, x, torch.zeros(1, 7, dtype=torch.bool))
    step = -1 if "reverse" in ways else 1
    read, weights = list(numbers(x[0]))[::step], lstm_weights(encoder.lstm)
    if "both_ways" in ways:
        pairs = zip(weights, lstm_weights(encoder.lstm, "_reverse"), strict=True)
        outputs, state = reference.two_way_lstm(read, list(pairs))
    else:
        outputs, state = reference.lstm(read, weights, reference.zeros(weights))
    np.testing.assert_allclose(numbers(states[0]), np.stack(outputs)[::step], **EXACT)
    np.testing.assert_allclose(numbers(h[:, 0]), np.stack([s[0] for s in state]), **EXACT)
    np.testing.assert_allclose(numbers(c[:, 0]), np.stack([s[1] for s in state]), **EXACT)


@pytest.mark.parametrize("ways", [{}, {"reverse": True}, {"both_ways": True}])
def test_padding_is_not_read_on_either_side(ways):
    encoder = exact(recurrent.RecurrentEncoder, WIDTH, LAYERS, 0.0, **ways)
    x = random(4, 8, WIDTH)
    places = [slice(0, 8), slice(3, 8), slice(0, 1), slice(2, 6)]
    padding = torch.ones(4, 8, dtype=torch.bool)
    for row, place in enumerate(places):
        padding[row, place] = False
    states, (h, c) = encode(encoder, x, padding)
    assert (states[padding] == 0).all()
    for row, place in enumerate(places):
        alone = x[row : row + 1, place]
        expected, (h_1, c_1) = encode(encoder, alone, torch.zeros(1, alone.size(1)).bool())
        torch.testing.assert_close(states[row, place], expected[0], **EXACT)
        torch.testing.assert_close(h[:, row], h_1[:, 0], **EXACT)
        torch.testing.assert_close(c[:, row], c_1[:, 0], **EXACT)


def test_attention_is_the_references():
    attention = exact(recurrent.DotAttention, WIDTH)
    states, memory = random(2, 4, WIDTH), random(2, 9, WIDTH, seed=3)
    padding = torch.zeros(2, 9, dtype=torch.bool)
    padding[1, [0, 7, 8]] = True
    attended, alpha = attention(states, memory, padding)
    torch.testing.assert_close(alpha.sum(-1), torch.ones(2, 4, dtype=torch.float64), **EXACT)
    assert (alpha[1][:, padding[1]] == 0).all()
    for row in range(2):
        kept = list(numbers(memory[row])[~padding[row].numpy()])
        for step in range(4):
            combine = numbers(attention.combine.weight)
            expected = reference.attend(numbers(states[row, step]), kept, combine)
            np.testing.assert_allclose(numbers(attended[row, step]), expected[0], **EXACT)
            real = numbers(alpha[row, step])[~padding[row].numpy()]
            np.testing.assert_allclose(real, expected[1], **EXACT)


@pytest.mark.parametrize("feeding", [False, True])
def test_going_on_from_a_state_is_one_sequence(feeding):
    dot = recurrent.DotAttention(WIDTH).double()
    decoder = exact(recurrent.RecurrentDecoder, WIDTH, 2, 0.0, dot, feeding)
    x, memory = random(2, 6, WIDTH), random(2, 5, WIDTH, seed=3)
    start = tuple(random(2, 2, 2, WIDTH, seed=4).unbind())
    whole, alpha, end = decoder(x, start, memory)
    fed, state, parts = None, start, []
    for place in (slice(0, 1), slice(1, 4), slice(4, 6)):
        part, _, state = decoder(x[:, place], state, memory, fed=fed)
        fed = part[:, -1:]
        parts.append(part)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, **EXACT)
    for one, other in zip(state, end, strict=True):
        torch.testing.assert_close(one, other, **EXACT)
    assert alpha.shape == (2, 6, 5)


def test_a_memory_of_chosen_rows():
    rows, final = torch.tensor([2, 0, 0]), random(2, LAYERS, 3, WIDTH).unbind()
    memory = recurrent.RecurrentMemory(random(3, 5, WIDTH), random(3, 5) > 0, tuple(final))
    found = memory.select(rows)
    assert found.states.equal(memory.states[rows]) and found.padding.equal(memory.padding[rows])
    for ours, given in zip(found.final, final, strict=True):
        assert ours.equal(given[:, rows])


def test_dropout_is_between_layers_alone():
    assert recurrent.RecurrentEncoder(4, 2, 0.3).lstm.dropout == 0.3
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # PyTorch's, of dropout that drops nothing
        assert recurrent.RecurrentEncoder(4, 1, 0.3).lstm.dropout == 0


def test_initial_weights_fill_the_interval():
    encoder = recurrent.RecurrentEncoder(40, 2, 0.0)
    recurrent.initialize_uniformly(encoder)
    for parameter in encoder.parameters():
        assert parameter.abs().max() <= 0.08
    weights = encoder.lstm.weight_hh_l1
    assert weights.min() < -0.079 and weights.max() > 0.079
    assert abs(weights.std().item() - 0.16 / 12**0.5) < 0.002
