"""What fairseq's own Transformer takes and returns, ours does: with the same weights, the same."""

from types import SimpleNamespace

import pytest
import torch
from model_factory import make_dictionary, make_model, make_stock_twin, make_task, random_batch

LENGTHS = [(9, 7), (4, 11), (12, 2)]
NEAR = {"atol": 1e-5, "rtol": 1e-4}


@pytest.fixture(scope="module")
def task():
    return make_task()


@pytest.fixture(scope="module")
def models(task):
    ours = make_model(task, positions="sinusoidal-fairseq", layer_norm_eps=1e-5)
    return ours, make_stock_twin(ours)


@pytest.fixture(scope="module")
def batch(task):
    return random_batch(task, LENGTHS)


@pytest.fixture
def real(batch):
    """Where target and source have tokens, (B, T) and (B, S)."""
    return batch["prev_output_tokens"].ne(1), batch["src_tokens"].ne(1)


def assert_same_attention(ours, theirs, real):
    target, source = real
    assert ours.shape == theirs.shape
    torch.testing.assert_close(ours[target], theirs[target], **NEAR)
    assert (ours[target].sum(-1) - 1).abs().max() < 1e-5
    assert not (ours * ~source[:, None])[target].any()


def test_a_full_forward_returns_the_last_layers_attention(models, batch, real):
    (logits, extra), (expected, stock_extra) = (model(**batch) for model in models)
    torch.testing.assert_close(logits[real[0]], expected[real[0]], **NEAR)
    assert_same_attention(extra["attn"][0], stock_extra["attn"][0], real)


def test_in_training_it_is_there_too(models, batch):
    """fairseq's criterion with alignment reads it off the training's forward pass."""
    ours = models[0].train()
    assert ours(**batch)[1]["attn"][0].shape == (3, 11, 12)
    assert ours(**batch, features_only=True)[1]["attn"] == [None]  # nobody reads it: no work
    ours.eval()


@pytest.mark.parametrize("layer", [0, 1])
def test_alignment_of_a_layer(models, batch, real, layer):
    ours, theirs = (model(**batch, alignment_layer=layer)[1]["attn"][0] for model in models)
    assert_same_attention(ours, theirs, real)


def test_features_are_extracted(models, batch, real):
    (ours, extra), (theirs, stock_extra) = (model.extract_features(**batch) for model in models)
    torch.testing.assert_close(ours[real[0]], theirs[real[0]], **NEAR)
    assert_same_attention(extra["attn"][0], stock_extra["attn"][0], real)


def test_hidden_states_are_those_of_each_layer(models, batch, real):
    ours, theirs = (
        model.encoder(batch["src_tokens"], batch["src_lengths"], return_all_hiddens=True)
        for model in models
    )
    assert len(ours["encoder_states"]) == len(theirs["encoder_states"]) == 3
    for one, other in zip(ours["encoder_states"], theirs["encoder_states"], strict=True):
        places = real[1].T  # (S, B)
        torch.testing.assert_close(one[places], other[places], **NEAR)
    assert not models[0].encoder(batch["src_tokens"])["encoder_states"]
    inner = [model(**batch, return_all_hiddens=True)[1]["inner_states"] for model in models]
    assert len(inner[0]) == len(inner[1]) == 4
    for one, other in zip(*inner, strict=True):
        torch.testing.assert_close(one[real[0].T], other[real[0].T], **NEAR)


def test_an_incomplete_configuration_is_completed_before_anything_is_built(task):
    from omegaconf import OmegaConf

    from vaswani_plugin.fairseq_plugin.models.transformer import VaswaniTransformer

    bare = OmegaConf.create({"heads": 4, "max_source_positions": 9, "max_target_positions": 9})
    model = VaswaniTransformer.build_model(bare, task)
    assert model.projection_weight.size(1) == 512 and len(model.encoder.layers) == 6


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
