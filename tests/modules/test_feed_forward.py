"""Eq. 2 equals the NumPy loop."""

import numpy as np
import paper_reference
import pytest
import torch
from reference_weights import default_dtype, feed_forward_weights_of, numbers, shake

from vaswani_plugin.modules.feed_forward import FeedForward


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


def test_width_below_1_is_refused():
    with pytest.raises(ValueError, match="d_ff is 0; it must be at least 1"):
        FeedForward(6, 0)
