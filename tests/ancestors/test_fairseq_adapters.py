"""The recurrent models equal the NumPy loops, and what must not matter doesn't."""

import numpy as np
import pytest
import recurrent_reference as reference
import torch
from model_factory import make_task, random_batch
from recurrent_models import KINDS, exact_recurrent, lstm_weights
from reference_weights import numbers

from vaswani_plugin.ancestors.families import SEQ2SEQ_LSTM
from vaswani_plugin.model.build import count_parameters
from vaswani_plugin.model.families import row_of

EXACT = {"atol": 1e-11, "rtol": 0}
LENGTHS = [(9, 7), (4, 11), (12, 2), (2, 5)]
ATTENTIVE = ["attention", "input feeding", "scaled-dot", "additive", "mean"]


@pytest.fixture(scope="module")
def task():
    return make_task()


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def model(task, kind):
    return exact_recurrent(kind, task)


def score_of(kind, attention):
    """The reference's score function of a model's attention."""
    if kind == "additive":
        parts = attention.of_state.weight, attention.of_state.bias, attention.of_source.weight
        return reference.additive(numbers(attention.score.weight)[0], *map(numbers, parts))
    return {"scaled-dot": reference.scaled_dot, "mean": reference.alike}.get(kind, reference.dot)


@pytest.mark.parametrize("sharing", ["all", "decoder", "none"])
def test_logits_and_attention_are_the_references(task, kind, sharing):
    model = exact_recurrent(kind, task, share_embeddings=sharing)
    source, target = [7, 20, 9, 9, 4, 2], [2, 11, 5, 26, 8]
    encoder, decoder = model.encoder.layers.lstm, model.decoder.layers.lstm
    rows = numbers(model.encoder.embedding.weight), numbers(model.decoder.embedding.weight)
    common = source, target, rows, numbers(model.decoder.projection.weight)
    if kind in ATTENTIVE:
        ways = zip(lstm_weights(encoder), lstm_weights(encoder, "_reverse"), strict=True)
        expected, alpha = reference.attention_seq2seq(
            *(*common, list(ways), lstm_weights(decoder)),
            numbers(model.decoder.layers.attention.combine.weight),
            input_feeding=kind == "input feeding",
            score=score_of(kind, model.decoder.layers.attention),
        )
    elif kind == "both ways":
        ways = zip(lstm_weights(encoder), lstm_weights(encoder, "_reverse"), strict=True)
        expected = reference.two_way_seq2seq(*common, list(ways), lstm_weights(decoder))
    else:
        layers = lstm_weights(encoder), lstm_weights(decoder)
        expected = reference.seq2seq(*common, *layers, reverse=kind == "seq2seq")
    logits, extra = model(torch.tensor([source]), torch.tensor([6]), torch.tensor([target]))
    assert expected.std() > 0.1
    np.testing.assert_allclose(numbers(logits[0]), expected, **EXACT)
    if kind in ATTENTIVE:
        np.testing.assert_allclose(numbers(extra["attn"][0][0]), alpha, **EXACT)
    else:
        assert extra["attn"] == [None]
    pair = torch.tensor([source]), torch.tensor([6]), torch.tensor([target])
    features, _ = model(*pair, features_only=True)
    found = numbers(features[0] @ model.projection_weight.T)  # as a loss that projects itself does
    np.testing.assert_allclose(found, expected, **EXACT)


@pytest.mark.parametrize(("left_pad_source", "left_pad_target"), [(True, False), (False, True)])
def test_padded_in_a_batch_is_alone(task, model, left_pad_source, left_pad_target):
    batch = random_batch(task, LENGTHS, left_pad=left_pad_source)
    targets = batch["prev_output_tokens"]
    if left_pad_target:
        pairs = zip(targets, LENGTHS, strict=True)
        targets = torch.stack([row.roll(targets.size(1) - pair[1]) for row, pair in pairs])
    together, extra = model(batch["src_tokens"], batch["src_lengths"], targets)
    pad = task.source_dictionary.pad()
    for row, source in enumerate(batch["src_tokens"]):
        read, real = source.ne(pad), targets[row].ne(pad)
        alone, alone_extra = model(source[read][None], None, targets[row][real][None])
        torch.testing.assert_close(together[row][real], alone[0], **EXACT)
        if extra["attn"][0] is not None:
            alpha = extra["attn"][0][row][real]
            torch.testing.assert_close(alpha[:, read], alone_extra["attn"][0][0], **EXACT)
            assert (alpha[:, ~read] == 0).all()
    assert together.isfinite().all()


def lstm_parameters(inputs: int, units: int) -> int:
    """Four gates, each with a matrix for its input and its state, and PyTorch's two biases."""
    return 4 * units * (inputs + units + 2)


def count(name: str, source: int, target: int, **changes) -> int:
    family, row = row_of(name)
    return count_parameters(family, row.changes | changes, (source, target))


def test_parameters():
    """Sutskever et al. 2014: 384M with 160,000 source and 80,000 target words, 64M of them LSTM."""
    recurrent = 8 * lstm_parameters(1000, 1000)
    assert round(recurrent / 1e6) == 64
    found = count("vaswani_seq2seq_lstm", 160_000, 80_000)
    assert found == recurrent + (160_000 + 2 * 80_000) * 1000
    assert round(found / 1e6) == 384 == SEQ2SEQ_LSTM.rows[0].printed_parameters
    two_ways, decoder = 4 * lstm_parameters(192, 96), 2 * lstm_parameters(192, 192)
    expected = two_ways + decoder + 384 * 192 + 10_000 * 192 + 4 * 192 * 192
    assert count("vaswani_attention_lstm_tiny", 10_000, 10_000, input_feeding=True) == expected
