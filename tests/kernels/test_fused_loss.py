"""The fused loss equals the plain one in value and gradient."""

import pytest
import torch
from meta import largest_tensor, launches_only

from tests.modules.test_loss import PAD, VOCABULARY, WIDTH, make_case
from vaswani_plugin.kernels import fused_loss as loss_module
from vaswani_plugin.kernels import layers, matrix_library
from vaswani_plugin.kernels.fused_loss import fused_projected_loss
from vaswani_plugin.modules.loss import label_smoothed_cross_entropy, projected_loss


@pytest.fixture(params=[True, False], ids=["as-on-a-cpu", "as-on-a-device"])
def padding(request, monkeypatch):
    """Padding left out, or computed and counted as nothing."""
    monkeypatch.setattr(loss_module, "runs_on_host", lambda device: request.param)


@pytest.fixture(params=[1, 5, 1000], ids=lambda rows: f"{rows}-rows-a-chunk")
def chunks(request, monkeypatch, padding):
    """The fused loss in chunks of so many tokens."""
    monkeypatch.setattr(loss_module, "chunk_rows", lambda *sizes, in_cache: request.param)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("tokens", [0, 1, 31])
@pytest.mark.parametrize("strided", [False, True])
def test_fused_is_plain_in_value_and_gradient(chunks, epsilon, tokens, strided):
    """Also of padding alone, and where what comes after scales the gradient."""
    generator = torch.Generator().manual_seed(tokens)
    shape = (WIDTH, tokens) if strided else (tokens, WIDTH)
    features = torch.randn(shape, generator=generator, dtype=torch.float64)
    features = features.T if strided else features
    weight = torch.randn(VOCABULARY, WIDTH, generator=generator, dtype=torch.float64)
    target = torch.randint(PAD, 4, (tokens,), generator=generator)  # padding among them
    inputs = features.requires_grad_(), weight.requires_grad_()
    results = []
    for compute in (fused_projected_loss, projected_loss):
        sums = compute(*inputs, target, epsilon, PAD, True)
        results.append((*sums, *torch.autograd.grad(-2.5 * sums.loss, inputs)))
    assert tokens < 2 or (0 < results[1][2] < tokens and target.eq(PAD).any())
    for fused, plain in zip(*results, strict=True):
        torch.testing.assert_close(fused, plain, atol=1e-10, rtol=0)


@pytest.mark.parametrize("trained", ["features", "weight"])
def test_one_input_alone_may_want_a_gradient(trained, padding):
    features, weight, target = make_case()
    wanted = features if trained == "features" else weight
    wanted.requires_grad_()
    sums = fused_projected_loss(features, weight, target, 0.1, PAD)
    loss, _ = label_smoothed_cross_entropy(features @ weight.T, target, 0.1, PAD)
    sums.loss.backward()
    (expected,) = torch.autograd.grad(loss.sum(), (wanted,))
    torch.testing.assert_close(wanted.grad, expected, atol=1e-10, rtol=0)
    assert (weight if trained == "features" else features).grad is None


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_without_gradients_none_is_computed(monkeypatch, padding, off):
    """As in validation, of a trained weight."""
    features, weight, target = make_case()
    weight = torch.nn.Parameter(weight)
    expected = fused_projected_loss(features, weight, target, 0.1, PAD).loss.detach()
    monkeypatch.setattr(torch.Tensor, "scatter_add_", lambda *_: pytest.fail("computed"))
    with off():
        silent = fused_projected_loss(features, weight, target, 0.1, PAD)
    torch.testing.assert_close(silent.loss, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("onednn", [False, True])
def test_either_matrix_library_gives_the_same(onednn, monkeypatch, padding):
    """In float32, with as many rows as oneDNN is for."""
    if onednn and not matrix_library.has_onednn():
        pytest.skip("this PyTorch was built without oneDNN")
    library = "onednn" if onednn else "pytorch"
    monkeypatch.setattr(layers, "chosen_library", lambda: library)
    torch.manual_seed(4)
    features = torch.randn(90, 32, requires_grad=True)
    weight = torch.randn(60, 32, requires_grad=True)
    target = torch.randint(0, 60, (90,))
    found = fused_projected_loss(features, weight, target, 0.1, PAD).loss
    exact = [x.detach().double().requires_grad_() for x in (features, weight)]
    plain = label_smoothed_cross_entropy(exact[0] @ exact[1].T, target, 0.1, PAD)[0].sum()
    torch.testing.assert_close(found.double(), plain, atol=0, rtol=1e-6)
    expected = torch.autograd.grad(plain, exact)
    for ours, other in zip(torch.autograd.grad(found, (features, weight)), expected, strict=True):
        torch.testing.assert_close(ours.double(), other, atol=1e-4, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_decides_on_the_logits(chunks, dtype):
    """Of a normalization's output, which it keeps in float32, and of a product's."""
    features, weight, target = make_case(torch.float32)
    features = features.to(dtype).requires_grad_()
    weight.requires_grad_()
    results = []
    for mixed in (False, True):
        x = features if mixed else features.float()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mixed):
            sums = fused_projected_loss(x, weight, target, 0.1, PAD)
        gradients = torch.autograd.grad(sums.loss, (features, weight))
        results.append((sums.loss, sums.nll, *gradients))
        assert gradients[0].dtype == dtype and gradients[1].dtype == sums.loss.dtype
    assert not results[1][3].bfloat16().float().equal(results[1][3])  # the weight's isn't rounded
    for plain, mixed in zip(*results, strict=True):
        assert not mixed.equal(plain)  # products in bfloat16
        torch.testing.assert_close(mixed, plain, atol=0.1, rtol=2e-2)


def test_the_loss_may_be_changed_in_place():
    """As fairseq does with a worker's dummy batch, where an epoch's batches don't share out."""
    features, weight, target = make_case()
    leaves = features.requires_grad_(), weight.requires_grad_()
    loss = fused_projected_loss(*leaves, target, 0.1, PAD).loss
    loss *= 0
    assert all(not gradient.any() for gradient in torch.autograd.grad(loss, leaves))


def test_gold_tokens_whose_probability_underflows():
    """Their loss is the difference of two logits, not the logarithm of 0."""
    features, weight, _ = make_case(torch.float32)
    logits = 3000 * features @ weight.T
    target = logits.argmin(dim=-1)
    features, weight = (3000 * features).requires_grad_(), weight.requires_grad_()
    fused = fused_projected_loss(features, weight, target, 0.1, PAD)
    plain = projected_loss(features, weight, target, 0.1, PAD)
    assert logits.softmax(-1).gather(-1, target[:, None]).eq(0).any()
    for one, other in zip(fused[:2], plain[:2], strict=True):
        torch.testing.assert_close(one, other, atol=0, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_another_device_is_not_waited_for(dtype):
    """And never holds the logits of all tokens."""
    tokens, vocabulary = 25_000, 37_000
    features = torch.empty(tokens, WIDTH, device="meta", dtype=dtype, requires_grad=True)
    weight = torch.empty(vocabulary, WIDTH, device="meta", dtype=dtype, requires_grad=True)
    target = torch.empty(tokens, dtype=torch.long, device="meta")
    with launches_only(), largest_tensor() as largest:
        sums = fused_projected_loss(features, weight, target, 0.1, PAD, True)
        sums.loss.backward()
    assert sums.loss.dtype == torch.float32 and features.grad.dtype == dtype
    assert loss_module.DEVICE_CHUNK_ELEMENTS // 2 < largest() <= loss_module.DEVICE_CHUNK_ELEMENTS


def test_it_steps_aside(monkeypatch):
    """In float16, under its autocast, under torch.func and torch.compile."""
    monkeypatch.setattr(loss_module, "_FusedLoss", None)
    features, weight, target = make_case(torch.float16)
    expected = projected_loss(features, weight, target, 0.1, PAD).loss
    assert fused_projected_loss(features, weight, target, 0.1, PAD).loss.equal(expected)
    features, weight, target = make_case(torch.float32)
    with torch.autocast("cpu", dtype=torch.float16):
        assert fused_projected_loss(features, weight, target, 0.1, PAD).loss.isfinite()
    features, weight, target = make_case()
    compiled = torch.compile(fused_projected_loss, backend="eager")
    expected = projected_loss(features, weight, target, 0.1, PAD).loss
    torch.testing.assert_close(compiled(features, weight, target, 0.1, PAD).loss, expected)

    def loss(weight, x, gold):
        return fused_projected_loss(x[None], weight, gold[None], 0.1, PAD).loss

    rows = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(weight, features, target)
    weight.requires_grad_()
    total = projected_loss(features, weight, target, 0.1, PAD).loss
    (expected,) = torch.autograd.grad(total, weight)
    torch.testing.assert_close(rows.sum(0), expected, atol=1e-10, rtol=0)
