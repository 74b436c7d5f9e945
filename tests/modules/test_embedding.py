"""Embeddings and projection (section 3.4): one matrix, scaled at the input, no bias."""

import math

import torch

from vaswani_plugin.modules.embedding import Embedding

PAD = 1


def make_embedding() -> Embedding:
    torch.manual_seed(5)
    return Embedding(11, 16, PAD).double()


def test_input_is_scaled_and_output_is_not():
    embedding = make_embedding()
    tokens = torch.tensor([[4, 10], [0, 4]])
    for row in range(2):
        for column in range(2):
            expected = [math.sqrt(16) * w for w in embedding.weight[tokens[row, column]].tolist()]
            assert embedding(tokens)[row, column].tolist() == expected
    x = torch.randn(2, 3, 16, dtype=torch.float64)
    logits = embedding.project(x)
    assert logits.shape == (2, 3, 11)
    for token in range(11):
        by_hand = (x[1, 2] * embedding.weight[token]).sum()
        torch.testing.assert_close(logits[1, 2, token], by_hand, atol=1e-12, rtol=0)


def test_no_bias_and_one_matrix():
    embedding = make_embedding()
    assert [name for name, _ in embedding.named_parameters()] == ["weight"]
    assert (embedding.project(torch.zeros(16, dtype=torch.float64)) == 0).all()


def test_embedded_tokens_start_at_unit_size():
    """sqrt(D) times standard deviation D^-0.5: as large as the sinusoids added to it."""
    torch.manual_seed(5)
    embedding = Embedding(2000, 64, PAD)
    assert 0.97 < embedding(torch.arange(2, 2000)).std() < 1.03


def test_padding_is_zero_and_inputs_do_not_train_it():
    embedding = make_embedding()
    tokens = torch.tensor([[4, PAD]])
    assert (embedding(tokens)[0, 1] == 0).all()
    embedding(tokens).sum().backward()
    assert (embedding.weight.grad[PAD] == 0).all()
    assert (embedding.weight.grad[4] == math.sqrt(16)).all()


def test_input_and_projection_train_the_same_matrix():
    embedding = make_embedding()
    (embedding.project(embedding(torch.tensor([[4]]))) ** 2).sum().backward()
    assert embedding.weight.grad[4].abs().max() > 1e-3  # as input
    assert embedding.weight.grad[7].abs().max() > 1e-3  # as a row of the projection only
