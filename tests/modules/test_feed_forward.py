"""Eq. 2 equals the NumPy loop."""

import numpy as np
import paper_reference
import pytest
import saved_tensors
import torch
from reference_weights import default_dtype, feed_forward_weights_of, numbers, shake

from vaswani_plugin.modules import recomputing
from vaswani_plugin.modules.feed_forward import FeedForward, _ForgetfulFeedForward


def test_equation_2():
    with default_dtype(torch.float64):
        torch.manual_seed(5)
        module = shake(FeedForward(6, 10)).eval()
        x = torch.randn(2, 4, 6)
    output = module(x)
    for sentence in range(2):
        expected = paper_reference.feed_forward(
            x[sentence].numpy(), feed_forward_weights_of(module)
        )
        np.testing.assert_allclose(numbers(output[sentence]), expected, atol=1e-10, rtol=0)


def test_dropout_is_on_hidden_units_in_training_only():
    torch.manual_seed(5)
    module, x = FeedForward(6, 10, dropout=0.5), torch.randn(3, 6)
    module.eval()
    assert module(x).equal(module(x))
    module.train()
    assert not module(x).equal(module(x))
    torch.nn.init.zeros_(module.w_2.weight)  # with W_2 = 0 only b_2 is left, and nothing drops it
    torch.nn.init.ones_(module.w_2.bias)
    assert module(x).equal(torch.ones(3, 6))


@pytest.fixture
def forgetful(monkeypatch):
    """A hidden layer of any size is computed again in the backward pass."""
    monkeypatch.setattr(recomputing, "WORTH_A_PRODUCT", 1)


def train_once(module, x) -> tuple[list[torch.Tensor], list[torch.Size]]:
    """Value and gradients, and the shapes kept meanwhile."""
    with saved_tensors.collected() as kept:
        y = module(x)
    gradients = torch.autograd.grad(y.square().sum(), [x, *module.parameters()])
    return [y, *gradients], [each.shape for each in kept]


@pytest.mark.parametrize("piece", [1, 30, 1000])
def test_a_large_hidden_layer_is_computed_again(forgetful, monkeypatch, piece):
    """Row by row, three rows at a time, all at once."""
    monkeypatch.setattr(recomputing, "PIECE", piece)
    with default_dtype(torch.float64):
        torch.manual_seed(5)
        module = shake(FeedForward(6, 10))
        x = torch.randn(2, 4, 6, requires_grad=True)
    again, kept = train_once(module, x)
    monkeypatch.undo()
    plain, kept_otherwise = train_once(module, x)
    assert (2, 4, 10) in kept_otherwise and (2, 4, 10) not in kept and (8, 10) not in kept
    for one, other in zip(again, plain, strict=True):
        assert other.abs().max() > 1e-3
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


def test_inputs_of_any_strides_do(forgetful):
    torch.manual_seed(5)
    module = FeedForward(6, 10)
    x = torch.randn(4, 2, 6, requires_grad=True)
    own = x.detach().transpose(0, 1).contiguous().requires_grad_()
    for one in (x.transpose(0, 1), own):
        module(one).square().sum().backward()
    assert x.grad.transpose(0, 1).equal(own.grad) and own.grad.abs().max() > 1e-3


def test_in_bfloat16_the_gradients_of_pieces_are_added_in_float32(forgetful, monkeypatch):
    torch.manual_seed(5)
    module, x = FeedForward(6, 10).bfloat16(), torch.randn(512, 6, dtype=torch.bfloat16)
    gradients = []
    for piece in (1 << 20, 10):
        monkeypatch.setattr(recomputing, "PIECE", piece)
        gradients.append(torch.autograd.grad(module(x).float().sum(), module.parameters()))
    for whole, summed in zip(*gradients, strict=True):
        assert summed.dtype == torch.bfloat16 and whole.abs().max() > 1
        torch.testing.assert_close(summed, whole, atol=0.1, rtol=2e-2)


def test_finite_differences_agree_when_computed_again(monkeypatch):
    monkeypatch.setattr(recomputing, "PIECE", 10)  # of 30 numbers
    torch.manual_seed(5)
    shapes = ((2, 3, 4), (5, 4), (5,), (4, 5), (4,))
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(_ForgetfulFeedForward.apply, inputs)


def test_what_was_dropped_stays_dropped(forgetful):
    """With dropout inside, the hidden layer is kept: drawn again, it would be another one."""
    torch.manual_seed(5)
    module, x = FeedForward(6, 10, dropout=0.5), torch.randn(3, 6)
    y = module(x)
    (gradient,) = torch.autograd.grad(y[:, 0].sum(), module.w_2.weight)
    torch.testing.assert_close(
        y[:, 0].sum(), gradient[0] @ module.w_2.weight[0] + 3 * module.w_2.bias[0]
    )


def test_width_below_1_is_refused():
    with pytest.raises(ValueError, match="d_ff is 0; it must be at least 1"):
        FeedForward(6, 0)
