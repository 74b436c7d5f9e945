"""--checkpoint-activations and --compile change what training costs, and no result."""

import pytest
import saved_tensors
import torch
from model_factory import SIZES, make_model, make_task, random_batch

LENGTHS = [(9, 7), (4, 11), (12, 2)]


@pytest.fixture(scope="module")
def task():
    return make_task()


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


@pytest.mark.parametrize("extra", [{}, {"attention_dropout": 0.2, "activation_dropout": 0.2}])
def test_recomputed_layers_give_the_same_gradients(task, extra):
    batch = random_batch(task, LENGTHS)
    plain, recomputing = (
        make_model(task, dropout=0.3, checkpoint_activations=recompute, **extra)
        for recompute in (False, True)
    )
    assert_same(train_once(recomputing, batch), train_once(plain, batch), atol=0, rtol=0)
    assert kept_for_backward(recomputing, batch) < 0.5 * kept_for_backward(plain, batch)


def test_evaluation_is_not_touched(task):
    batch = random_batch(task, LENGTHS)
    plain, switched = (
        make_model(task, checkpoint_activations=on, compile=on).eval() for on in (False, True)
    )
    switched.load_state_dict(plain.state_dict())  # the same keys
    assert switched.encoder.run_layer and switched.decoder.run_layer
    with torch.no_grad():
        assert switched(**batch)[0].equal(plain(**batch)[0])


def test_compiled_layers_give_the_same_gradients_and_other_shapes_compile_nothing_again(
    task, monkeypatch
):
    """A layer's code is compiled once for all layers of its kind, and for all shapes."""
    compiler = torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda run, **how: compiler(run, backend="aot_eager", **how)
    )
    torch.compiler.reset()
    # PyTorch has no public name for the number of graphs that it compiled.
    compiled = torch._dynamo.utils.counters["stats"]
    compiled.clear()
    plain, model = (make_model(task, compile=on) for on in (False, True))
    model.decoder.run_layer = None  # its layers would take two thirds of the time
    batch = random_batch(task, LENGTHS)
    assert_same(train_once(model, batch), train_once(plain, batch), atol=1e-5, rtol=1e-4)
    graphs = compiled["unique_graphs"]
    assert graphs == 1 < SIZES["encoder_layers"]
    for lengths in ([(5, 4), (3, 6)], [(20, 3), (3, 20)], [(6, 6)] * 7, [(2, 31), (40, 2)]):
        train_once(model, random_batch(task, lengths))
    assert compiled["unique_graphs"] == graphs
    train_once(model, random_batch(task, LENGTHS))
    assert compiled["unique_graphs"] == graphs
