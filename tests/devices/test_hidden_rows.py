"""Windows and padding that hide everything from a position make zeros, never NaN."""

import pytest
import torch
from model_factory import make_model, make_task, plain_transformer, random_batch

from vaswani_plugin.modules.attention import MultiHeadAttention

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
LENGTHS = [(12, 11), (2, 1), (1, 3)]
WINDOW = 2


def gradients_are_finite(module: torch.nn.Module) -> bool:
    found = [p.grad for p in module.parameters() if p.grad is not None]
    assert found
    return all(gradient.isfinite().all() for gradient in found)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("written_out", [False, True])
def test_a_query_that_sees_nothing(dtype, written_out):
    """Zeros, whether Eq. 1 is written out or PyTorch's; and finite gradients."""
    torch.manual_seed(3)
    attention = MultiHeadAttention(12, 3, 4, 4).to(dtype)
    x = torch.randn(2, 5, 12).to(dtype).requires_grad_()
    mask = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    mask[0, :, :2] = False
    y, weights = attention(x, None, mask, need_weights=written_out)
    y.float().square().sum().backward()
    nothing = attention.output.bias.expand(2, -1)
    assert y[0, :2].equal(nothing) and not y[0, 2:].equal(nothing)
    assert y.isfinite().all() and x.grad.isfinite().all() and gradients_are_finite(attention)
    if written_out:
        assert not weights[0, :, :2].any() and weights[0, :, 2:].sum() > 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left_pad_target", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
def test_a_window_among_padding_on_the_left(dtype, left_pad_target, need_weights):
    task = make_task()
    model = plain_transformer(make_model(task, attention_window=WINDOW).to(dtype))
    batch = random_batch(task, LENGTHS)
    if left_pad_target:
        batch["prev_output_tokens"] = batch["prev_output_tokens"].flip(1)
    encoded = model.encoder(batch["src_tokens"], need_weights)
    memory = model.encode(batch["src_tokens"])._replace(features=encoded.features)
    decoded = model.decode(batch["prev_output_tokens"], memory, need_weights=need_weights)
    logits = model.decoder.project(decoded.features)
    assert encoded.features.isfinite().all() and logits.isfinite().all()
    logits.float().square().mean().backward()
    assert gradients_are_finite(model)
