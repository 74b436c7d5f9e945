"""With copied weights, our Transformer is fairseq's stock one (with its sinusoids chosen)."""

import pytest
import torch
from model_factory import make_model, make_stock_twin, make_task, random_batch

LENGTHS = [(9, 7), (4, 11), (12, 2), (2, 5)]


@pytest.fixture
def twins():
    task = make_task()
    model = make_model(task, positions="sinusoidal-fairseq", layer_norm_eps=1e-5)
    return task, model, make_stock_twin(model)


@pytest.mark.parametrize("left_pad", [True, False])
def test_logits_are_equal(twins, left_pad):
    task, model, stock = twins
    batch = random_batch(task, LENGTHS, left_pad=left_pad)
    ours, theirs = model(**batch)[0], stock(**batch)[0]
    real = batch["prev_output_tokens"].ne(task.source_dictionary.pad())
    assert ours[real].std() > 0.1
    assert (ours - theirs)[real].abs().max() < 1e-5


def test_gradients_are_equal(twins):
    task, model, stock = twins
    batch = random_batch(task, LENGTHS)
    real = batch["prev_output_tokens"].ne(task.source_dictionary.pad())
    for twin in (model, stock):
        twin(**batch)[0].log_softmax(-1)[real].square().mean().backward()
    ours = model.encoder.embedding.weight.grad
    theirs = stock.encoder.embed_tokens.weight.grad
    assert theirs.abs().max() > 1e-3
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(
        model.decoder.layers[0].cross_attention.key.weight.grad,
        stock.decoder.layers[0].encoder_attn.k_proj.weight.grad,
        atol=1e-6,
        rtol=1e-4,
    )


def test_the_papers_sinusoids_differ(twins):
    task, _, stock = twins
    batch = random_batch(task, LENGTHS)
    paper = make_model(task, layer_norm_eps=1e-5)
    assert (paper(**batch)[0] - stock(**batch)[0]).abs().max() > 1e-2
