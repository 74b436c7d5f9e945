"""What fairseq's own Transformer takes and returns, ours does: with the same weights, the same."""

from types import SimpleNamespace

import pytest
import saved_tensors
import torch
from model_factory import make_dictionary, make_model, make_stock_twin, random_batch
from omegaconf import OmegaConf

from vaswani_plugin.fairseq_plugin.models.transformer import VaswaniTransformer

LENGTHS = [(9, 7), (4, 11), (12, 2)]
NEAR = {"atol": 1e-5, "rtol": 1e-4}


@pytest.fixture(scope="module")
def models(task):
    ours = make_model(task, positions="sinusoidal-fairseq", layer_norm_eps=1e-5)
    return ours, make_stock_twin(ours)


@pytest.fixture(scope="module")
def batch(task):
    return random_batch(task, LENGTHS)


@pytest.mark.parametrize(
    "call",
    [
        lambda model, batch: model(**batch),
        lambda model, batch: model.extract_features(**batch),
        lambda model, batch: model(**batch, alignment_layer=0),
        lambda model, batch: model(**batch, alignment_layer=1),
    ],
    ids=["logits", "features", "layer 0", "layer 1"],
)
def test_outputs_and_attention_are_the_twins(models, batch, call):
    target, source = batch["prev_output_tokens"].ne(1), batch["src_tokens"].ne(1)
    (found, extra), (expected, stock_extra) = (call(model, batch) for model in models)
    torch.testing.assert_close(found[target], expected[target], **NEAR)
    ours, theirs = extra["attn"][0], stock_extra["attn"][0]
    assert ours.shape == theirs.shape
    torch.testing.assert_close(ours[target], theirs[target], **NEAR)
    assert not (ours * ~source[:, None])[target].any()


def test_attention_in_training(models, batch):
    """fairseq's criterion with alignment reads it off the training's forward pass."""
    ours = models[0].train()
    assert ours(**batch)[1]["attn"][0].shape == (3, 11, 12)
    assert ours(**batch, features_only=True)[1]["attn"] == [None]  # nobody reads it: no work
    ours.eval()


def test_an_incomplete_configuration_is_completed_before_anything_is_built(task):
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
    model(**random_batch(task, [{"source": (9, 3), "target": (3, 9)}[side]]))
    past = {"source": (10, 3), "target": (3, 10)}[side]
    with pytest.raises(ValueError, match="a sequence of 10 tokens; the model has 9 positions"):
        model(**random_batch(task, [past]))
    assert model.max_positions() == (9, 9)


def train_once(model, batch) -> dict[str, torch.Tensor]:
    """Logits, and the gradient of every parameter, with dropout as seed 5 draws it."""
    model.train()
    torch.manual_seed(5)
    logits = model(**batch)[0]
    logits.square().mean().backward()
    return {"logits": logits.detach()} | {name: p.grad for name, p in model.named_parameters()}


def kept_for_backward(model, batch) -> int:
    """Bytes that a forward pass keeps."""
    model.train()
    with saved_tensors.collected() as kept:
        model(**batch)[0].sum()
    return sum(saved_tensors.storages(kept).values())


def assert_same(found: dict, expected: dict, **tolerance) -> None:
    assert found.keys() == expected.keys() and any(g.abs().max() > 1e-4 for g in expected.values())
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, msg=name, **tolerance)


def test_recomputed_layers_give_the_same_gradients(task, batch):
    dropouts = {"dropout": 0.3, "attention_dropout": 0.2, "activation_dropout": 0.2}
    plain, recomputing = (
        make_model(task, checkpoint_activations=recompute, **dropouts)
        for recompute in (False, True)
    )
    assert_same(train_once(recomputing, batch), train_once(plain, batch), atol=0, rtol=0)
    assert kept_for_backward(recomputing, batch) < 0.5 * kept_for_backward(plain, batch)


@pytest.fixture
def without_inductor(monkeypatch):
    """Graphs are made, and run by PyTorch's own kernels: no C++ is compiled."""
    compiler = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, **kw: compiler(f, backend="aot_eager", **kw))
    torch.compiler.reset()


@pytest.mark.parametrize("off", ["decoder", pytest.param("encoder", marks=pytest.mark.slow)])
def test_compiled_layers_give_the_same_gradients_and_other_shapes_compile_nothing_again(
    task, batch, without_inductor, off
):
    """A layer's code is compiled once for all layers of its kind, and for all shapes."""
    # PyTorch has no public name for the number of graphs that it compiled.
    compiled = torch._dynamo.utils.counters["stats"]
    compiled.clear()
    plain, model = (make_model(task, compile=on) for on in (False, True))
    getattr(model, off).run_layer = None  # the decoder's would take two thirds of the time
    assert_same(train_once(model, batch), train_once(plain, batch), atol=1e-5, rtol=1e-4)
    graphs = compiled["unique_graphs"]
    assert graphs == {"decoder": 1, "encoder": 2}[off]  # without it; there are 2 and 3 layers
    for lengths in ([(5, 4), (3, 6)], [(20, 3), (3, 20)], [(6, 6)] * 7, [(2, 31), (40, 2)]):
        train_once(model, random_batch(task, lengths))
    assert compiled["unique_graphs"] == graphs
    train_once(model, random_batch(task, LENGTHS))
    with torch.no_grad():  # evaluation meets too many lengths
        assert model.eval()(**batch)[0].equal(plain.eval()(**batch)[0])
    assert compiled["unique_graphs"] == graphs
