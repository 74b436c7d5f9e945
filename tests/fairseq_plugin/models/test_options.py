"""What the flags of the model do: attention weights, sharing, widths, limits, errors."""

from types import SimpleNamespace

import pytest
import torch
from model_factory import attention_weights, make_dictionary, make_model, make_task, random_batch

LENGTHS = [(9, 7), (4, 11), (12, 2)]


@pytest.fixture(scope="module")
def task():
    return make_task()


@pytest.mark.parametrize("window", [0, 3])
def test_attention_weights_are_those_of_each_head(task, window):
    model = make_model(task, attention_window=window)
    batch = random_batch(task, LENGTHS)
    weights = attention_weights(model, batch["src_tokens"], batch["prev_output_tokens"])
    shapes = {name: [tuple(w.shape) for w in layers] for name, layers in weights.items()}
    assert shapes == {
        "encoder": [(3, 4, 12, 12)] * 2,
        "decoder": [(3, 4, 11, 11)] * 3,
        "cross": [(3, 4, 11, 12)] * 3,
    }
    pad = task.source_dictionary.pad()
    source_padding = batch["src_tokens"].eq(pad)
    real_source, real_target = ~source_padding, batch["prev_output_tokens"].ne(pad)
    for name, real in (("encoder", real_source), ("decoder", real_target), ("cross", real_target)):
        for layer in weights[name]:
            rows = layer.sum(-1).transpose(1, 2)[real]  # (real tokens, H)
            torch.testing.assert_close(rows, torch.ones_like(rows), atol=1e-5, rtol=0)
            assert (layer[:, 0] - layer[:, 1]).abs().max() > 1e-3  # heads differ: no average
    for name, real in (("encoder", real_source), ("cross", real_target)):
        on_padding = real[:, None, :, None] & source_padding[:, None, None, :]
        for layer in weights[name]:
            assert (layer[on_padding.expand_as(layer)] == 0).all()
    for layer in weights["decoder"]:
        assert (layer.triu(1) == 0).all()


def test_differing_dictionaries_share_only_the_decoder():
    task = SimpleNamespace(
        source_dictionary=make_dictionary(20, "s"), target_dictionary=make_dictionary(31, "t")
    )
    with pytest.raises(ValueError, match="--joined-dictionary, or give --share-embeddings decoder"):
        make_model(task)
    model = make_model(task, share_embeddings="decoder")
    assert model.encoder.embedding.weight.shape == (24, 32)
    assert model.projection_weight.shape == (35, 32)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_sentence_past_the_limit_is_refused_and_one_at_it_is_not(task, side):
    model = make_model(task, max_source_positions=9, max_target_positions=9)
    at_the_limit = {"source": (9, 3), "target": (3, 9)}[side]
    model(**random_batch(task, [at_the_limit]))
    past = {"source": (10, 3), "target": (3, 10)}[side]
    message = (
        rf"a {side} sentence has 10 tokens and the model 9 positions; shorten it, .*"
        rf"--max-{side}-positions"
    )
    with pytest.raises(ValueError, match=message):
        model(**random_batch(task, [past]))
    assert model.max_positions() == (9, 9)
