"""The whole model equals the NumPy reference, and what must not matter doesn't (section 3)."""

import numpy as np
import paper_reference
import pytest
import torch
from model_factory import make_model, make_task, random_batch
from reference_weights import default_dtype, layer_weights_of, numbers, shake

EXACT = {"atol": 1e-10, "rtol": 0}
LENGTHS = [(9, 7), (4, 11), (12, 2), (2, 5)]


def exact_model(task, **changes):
    with default_dtype(torch.float64):
        return shake(make_model(task, **changes), size=0.1).eval()


@pytest.fixture(scope="module")
def task():
    return make_task()


@pytest.fixture(scope="module")
def model(task):
    return exact_model(task)


@pytest.mark.parametrize("positions", ["sinusoidal", "sinusoidal-fairseq"])
@pytest.mark.parametrize("sizes", [{}, {"heads": 3, "d_k": 5, "d_v": 9}])
def test_logits_are_the_references(task, positions, sizes):
    model = exact_model(task, positions=positions, **sizes)
    encodings = {
        "sinusoidal": paper_reference.sinusoid,
        "sinusoidal-fairseq": paper_reference.fairseq_sinusoid,
    }
    source, target = [7, 20, 9, 9, 4, 2], [2, 11, 5, 26, 8]
    expected = paper_reference.transformer(
        source,
        target,
        [layer_weights_of(layer) for layer in model.encoder.layers],
        [layer_weights_of(layer) for layer in model.decoder.layers],
        numbers(model.projection_weight),
        eps=1e-6,
        encoding=encodings[positions],
    )
    logits = model(torch.tensor([source]), torch.tensor([6]), torch.tensor([target]))[0]
    assert expected.std() > 0.1
    np.testing.assert_allclose(numbers(logits[0]), expected, **EXACT)


def test_padding_does_not_reach_the_gradients(task, model):
    batch = random_batch(task, LENGTHS[:2])
    pad = task.source_dictionary.pad()
    real = batch["prev_output_tokens"].ne(pad)
    parameters = list(model.parameters())

    def gradients(batch, chosen):
        logits = model(**batch)[0].log_softmax(-1)
        return torch.autograd.grad(logits[chosen].square().sum(), parameters)

    together = gradients(batch, real)
    apart = [torch.zeros_like(p) for p in parameters]
    for row in range(2):
        source, target = batch["src_tokens"][row], batch["prev_output_tokens"][row]
        alone = {
            "src_tokens": source[source.ne(pad)][None],
            "src_lengths": None,
            "prev_output_tokens": target[target.ne(pad)][None],
        }
        for total, part in zip(apart, gradients(alone, slice(None)), strict=True):
            total += part
    for ours, summed in zip(together, apart, strict=True):
        torch.testing.assert_close(ours, summed, atol=1e-8, rtol=1e-8)
