"""One call makes a built model faster and changes nothing that anyone can see of it."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vaswani_plugin import kernels
from vaswani_plugin.errors import UserError
from vaswani_plugin.kernels import NAMES, accelerate, layers, matrix_library, proof
from vaswani_plugin.kernels.attention import FEW_KEYS, fused_attention
from vaswani_plugin.kernels.fused_loss import fused_projected_loss
from vaswani_plugin.kernels.layers import FusedAddNorm, OneDNNLinear
from vaswani_plugin.modules import attention, loss
from vaswani_plugin.modules.attention import MultiHeadAttention, scaled_dot_product_attention
from vaswani_plugin.modules.layers import AddNorm
from vaswani_plugin.modules.loss import projected_loss
from vaswani_plugin.modules.transformer import Transformer


@pytest.fixture(autouse=True)
def onednn(monkeypatch):
    if not matrix_library.has_onednn():
        pytest.skip("this PyTorch was built without oneDNN")
    monkeypatch.setattr(kernels, "chosen_library", lambda: "onednn")
    monkeypatch.setattr(layers, "chosen_library", lambda: "onednn")
    monkeypatch.delenv(kernels.VARIABLE, raising=False)


def make_model(dropout: float = 0.0, seed: int = 1) -> Transformer:
    torch.manual_seed(seed)
    sizes = {"layers": 2, "d_model": 32, "d_ff": 48, "heads": 4, "max_positions": 40}
    model = Transformer(50, 50, 1, dropout=dropout, **sizes)
    model.projected_loss = projected_loss
    return model


def kinds(model: nn.Module) -> set[type]:
    return {type(part) for part in model.modules()}


def train_once(model: Transformer) -> dict[str, torch.Tensor]:
    """Loss, and the gradient of every parameter."""
    generator = torch.Generator().manual_seed(2)
    source, target = (torch.randint(4, 50, (6, 9), generator=generator) for _ in range(2))
    source[0, :3] = target[1, 6:] = 1
    memory = model.encoder(source)
    features = model.decoder(target, memory.features, source.ne(1)[:, None, None]).features
    weight = model.decoder.projection.weight
    sums = model.projected_loss(features.flatten(0, 1), weight, target.flatten(), 0.1, 1)
    model.zero_grad()
    sums.loss.backward()
    return {"loss": sums.loss.detach()} | {n: p.grad for n, p in model.named_parameters()}


def test_the_default_device_fails_no_proof(monkeypatch):
    monkeypatch.setattr(proof, "_proven", {})
    with torch.device("meta"):
        model = accelerate(make_model())
    assert {OneDNNLinear, FusedAddNorm} <= kinds(model) and all(proof._proven.values())


def test_values_and_gradients_stay():
    plain, fast = make_model(), accelerate(make_model())
    assert {OneDNNLinear, FusedAddNorm} <= kinds(fast) and nn.Linear not in kinds(fast)
    assert fast.projected_loss is fused_projected_loss
    expected = train_once(plain)
    for name, found in train_once(fast).items():
        torch.testing.assert_close(found, expected[name], atol=2e-3, rtol=1e-4, msg=name)


def test_under_autocast_gradients_are_near_those_of_float64():
    """As near as the plain model's, and nearer in the projection, whose gradient isn't rounded."""
    distances = torch.zeros(3)
    for seed in range(4):
        exact = train_once(make_model(seed=seed).double())
        for place, model in enumerate((make_model(seed=seed), accelerate(make_model(seed=seed)))):
            with torch.autocast("cpu", torch.bfloat16):
                found = train_once(model)
            assert all(x.dtype == torch.float32 for x in found.values())
            distances[place] += sum((found[n] - x).square().sum() for n, x in exact.items()) ** 0.5
        distances[2] += 0.02 * sum(x.square().sum() for x in exact.values()) ** 0.5
    assert 0 < distances[1] < min(distances[2], 1.05 * distances[0])


ATTENDED = {torch.float64: (FEW_KEYS, 1e-9), torch.bfloat16: (4 * FEW_KEYS, 0.02)}
MASKS = (None, "padding", "causal", "square")


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("more", [-FEW_KEYS + 3, 0, 1])
@pytest.mark.parametrize("dtype", ATTENDED)
def test_attention_over_few_and_over_many_keys_is_eq_1(monkeypatch, dtype, more, mask):
    """Value and gradients; a sentence that is all padding attends to nothing."""
    calls, fast = [], F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *x, **y: calls.append(fast(*x, **y)) or calls[0]
    )
    few, atol = ATTENDED[dtype]
    keys = few + more
    seen = torch.arange(keys) < torch.tensor([keys, keys // 2, 0])[:, None, None, None]
    tensors = [torch.randn(3, 2, n, d) for n, d in ((5, 8), (keys, 8), (keys, 6))]
    settings = {"padding": (seen, None), "causal": (None, 0.3, True)}
    settings["square"] = (seen & (torch.rand(3, 1, 5, keys) < 0.7), 0.3)
    results = []
    for attend, kind in ((fused_attention, dtype), (scaled_dot_product_attention, torch.float64)):
        inputs = [x.to(kind).requires_grad_() for x in tensors]
        with torch.autocast("cpu", torch.bfloat16, enabled=kind == torch.bfloat16):
            y, _ = attend(*inputs, *settings.get(mask, ()))
        loss = (y.double() * torch.arange(y.numel()).view_as(y).cos()).sum()
        results.append([y, *torch.autograd.grad(loss, inputs)])
        assert all(x.dtype == kind for x in results[-1])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found.double(), expected, atol=atol, rtol=atol)
    assert len(calls) == (keys > few)


def test_a_model_that_only_decodes_gets_no_kernel_of_training():
    model = accelerate(make_model().eval())
    assert OneDNNLinear in kinds(model) and FusedAddNorm not in kinds(model)


def test_parameters_and_state_dict_stay_the_same():
    model = make_model()
    before, parameters = list(model.state_dict()), list(model.parameters())
    accelerate(accelerate(model))  # a second time changes nothing
    assert list(model.state_dict()) == before
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Halved(AddNorm):
    def forward(self, x, y):
        return self.norm(x + 0.5 * F.dropout(y, self.dropout, self.training))


class DroppedLater(AddNorm):
    def forward(self, x, y):
        return self.norm(F.dropout(x + y, self.dropout, self.training))


class Shifted(AddNorm):
    """As the paper's, until the new parameter has learned something."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.shift = nn.Parameter(torch.zeros(1))

    def forward(self, x, y):
        return super().forward(x, y) + self.shift


@pytest.mark.parametrize("kind", [Doubled, Halved, DroppedLater, Shifted])
def test_what_computes_anything_else_is_left_alone(kind, caplog):
    model, layer = make_model(), None
    layer = model.encoder.layers[0]
    if kind is Doubled:
        layer.feed_forward.w_1 = kind(32, 48)
    else:
        layer.self_attention_norm = kind(32, 0.1)
    accelerate(model)
    assert kind in kinds(model) and type(layer.feed_forward.w_2) is OneDNNLinear
    assert caplog.text.count(f"{kind.__name__} does not compute what") == 1


def test_edited_functions_are_left_alone(monkeypatch, caplog):
    """Eq. 1, add & norm and the loss, edited for large numbers alone, after a proof."""
    accelerate(make_model(0.1))
    plain, smoothed = scaled_dot_product_attention, loss.label_smoothed_cross_entropy

    def capped(query, *given):
        return plain(query.clamp(max=5), *given)

    def clamped(norm, x, y):
        return norm.norm((x + F.dropout(y, norm.dropout, norm.training)).clamp(-8, 8))

    monkeypatch.setattr(attention, "scaled_dot_product_attention", capped)
    monkeypatch.setattr(AddNorm, "forward", clamped)
    limited = lambda x, *given: smoothed(x.clamp(max=8), *given)  # noqa: E731
    monkeypatch.setattr(loss, "label_smoothed_cross_entropy", limited)
    model = accelerate(make_model(0.1))
    assert model.decoder.layers[0].cross_attention.attend is MultiHeadAttention.attend
    assert model.projected_loss is projected_loss and FusedAddNorm not in kinds(model)
    said = {line.split(" does not")[0] for line in caplog.messages}
    assert said == {"Eq. 1", "The projected loss", "AddNorm"}


def test_what_was_set_in_a_model_is_left_alone():
    """A bias that is 0 as yet, fairseq's hook, an attention's own function."""
    model, hooked = make_model(), make_model()
    decoder = model.decoder
    decoder.bias = nn.Parameter(torch.zeros(50))
    decoder.project = lambda x: F.linear(x, decoder.projection.weight, decoder.bias)
    hooked.decoder.output_layer = lambda x: hooked.decoder.project(x) / 2
    decoder.layers[0].cross_attention.attend = own = scaled_dot_product_attention
    assert accelerate(model).projected_loss is accelerate(hooked).projected_loss is projected_loss
    assert decoder.layers[0].cross_attention.attend is own


def test_hooks_are_left_alone():
    model, calls = make_model(), []
    norm = model.decoder.layers[1].feed_forward_norm
    norm.norm.register_forward_hook(lambda *_: calls.append(1))
    train_once(accelerate(model))
    assert type(norm) is AddNorm and calls


def test_the_random_numbers_are_those_of_the_plain_model():
    """A proof draws some of its own."""
    torch.manual_seed(3)
    accelerate(make_model(0.1))
    before = torch.rand(3)
    make_model(0.1)
    assert torch.rand(3).equal(before)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("on", NAMES), ("", NAMES), ("off", ()), ("fused_loss", ("fused_loss",))),
        (" linear, add_norm ", ("linear", "add_norm")),
    ],
)
def test_the_variable_chooses(monkeypatch, text, expected):
    monkeypatch.setenv(kernels.VARIABLE, text)
    model = accelerate(make_model())
    assert (OneDNNLinear in kinds(model)) == ("linear" in expected)
    assert (FusedAddNorm in kinds(model)) == ("add_norm" in expected)
    assert (model.projected_loss is fused_projected_loss) == ("fused_loss" in expected)
    attend = model.decoder.layers[0].cross_attention.attend
    assert (attend is fused_attention) == ("attention" in expected)


@pytest.mark.parametrize("text", ["none", "OFF", "fused-loss", "linear,fast", "linear,"])
def test_an_unknown_name_is_an_error(monkeypatch, text):
    """It would switch everything off, or all but the others."""
    monkeypatch.setenv(kernels.VARIABLE, text)
    with pytest.raises(UserError, match=f"{text}: no kernel .*: give on, off, .* packed_step, att"):
        accelerate(make_model())
    with pytest.raises(UserError):
        kernels.packing()


def test_linear_layers_stay_where_pytorchs_library_is_the_faster(monkeypatch):
    monkeypatch.setattr(kernels, "chosen_library", lambda: "pytorch")
    assert OneDNNLinear not in kinds(accelerate(make_model()))


def test_threads_prove_in_turn_and_leave_chance_as_it_was():
    def trial(leaf):
        time.sleep(0.01)
        return [torch.rand(3)]

    def prove(number):
        return proof.is_proven(None, ("threads", number), "x", lambda: (1, 2), trial)

    before = torch.get_rng_state()
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(prove, range(8)))
    assert torch.equal(torch.get_rng_state(), before)
