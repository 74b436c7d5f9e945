"""Restricted attention in blocks: the values and gradients of the mask, at a cost linear in n."""

import pytest
import torch
from saved_tensors import collected
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from vaswani_plugin.kernels.attention import restricted_attention
from vaswani_plugin.modules import attention

LENGTHS_AND_WINDOWS = [(9, 1), (9, 2), (12, 4), (5, 5), (1, 3), (33, 8), (3, 40)]
EXACT = {"atol": 1e-12, "rtol": 1e-12}


def inputs(length: int) -> list[torch.Tensor]:
    torch.manual_seed(length)
    shapes = (3, 2, length, 5), (3, 2, length, 5), (3, 2, length, 4)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def real_positions(length: int) -> torch.Tensor:
    """Padding in front, behind, and nowhere: (B, 1, 1, T), False at padding."""
    visible = torch.ones(3, length, dtype=torch.bool)
    visible[0, : length // 2] = False
    visible[1, length - length // 3 :] = False
    return visible[:, None, None]


@pytest.mark.parametrize(("length", "r"), LENGTHS_AND_WINDOWS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_values_and_gradients_are_the_masks(length, r, causal, padded):
    visible = real_positions(length) if padded else None
    window = attention.Window(r - 1, 0, visible) if causal else attention.neighbourhood(r, visible)
    q, k, v = inputs(length)
    expected, _ = attention.scaled_dot_product_attention(q, k, v, window.mask(length), 0.3)
    found = restricted_attention(q, k, v, window, 0.0, 0.3)
    torch.testing.assert_close(found, expected, **EXACT)
    upstream = torch.randn_like(found)
    ours = torch.autograd.grad(found, (q, k, v), upstream)
    theirs = torch.autograd.grad(expected, (q, k, v), upstream)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, **EXACT)


@pytest.mark.parametrize("r", [4, 16])
def test_the_cost_is_linear_in_the_length_and_in_the_window(r):
    def multiply_adds(length: int, r: int) -> int:
        x = torch.randn(1, 2, length, 8)
        # The counter knows products of matrices, not the fused kernels.
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            restricted_attention(x, x, x, attention.neighbourhood(r), 0.0, 1.0)
        return counter.get_total_flops()

    assert multiply_adds(32 * r, r) == 4 * multiply_adds(8 * r, r) > 0
    assert multiply_adds(256, 2 * r) == pytest.approx(2 * multiply_adds(256, r), rel=0.1)


def test_no_tensor_of_n_squared_is_kept_for_the_backward_pass():
    length, r = 512, 8
    x = torch.randn(1, 2, length, 4, requires_grad=True)
    with collected() as kept:
        restricted_attention(x, x, x, attention.neighbourhood(r), 0.0, 1.0)
    assert max(tensor.numel() for tensor in kept) <= length * 2 * (2 * r - 1)


def test_weights_on_request_are_the_same_attention():
    torch.manual_seed(1)
    layer = attention.MultiHeadAttention(8, 2, 4, 4).double()
    x = torch.randn(2, 11, 8, dtype=torch.float64)
    plain, none = layer(x, mask=attention.neighbourhood(3))
    shown, weights = layer(x, mask=attention.neighbourhood(3), need_weights=True)
    summed = weights @ attention.split_heads(layer.value(x), 2)
    torch.testing.assert_close(plain, shown, **EXACT)
    torch.testing.assert_close(layer.output(attention.merge_heads(summed)), shown, **EXACT)
    assert none is None and weights.shape == (2, 2, 11, 11)
    assert (weights[:, :, ~attention.neighbourhood(3).mask(11)] == 0).all()
