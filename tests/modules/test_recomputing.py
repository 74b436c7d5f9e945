"""What the backward pass makes again is what the forward pass had, and is not kept meanwhile."""

import pytest
import saved_tensors
import torch
from reference_weights import default_dtype
from torch import nn

from vaswani_plugin.modules import recomputing, short_attention
from vaswani_plugin.modules.add_norm import AddNorm
from vaswani_plugin.modules.attention import MultiHeadAttention
from vaswani_plugin.modules.linear import linear

NEVER = 1 << 62


@pytest.fixture(autouse=True)
def float64():
    with default_dtype(torch.float64):
        torch.manual_seed(5)
        yield


@pytest.fixture
def recompute(monkeypatch):
    """Call it with whether everything is made again, or nothing."""

    def switch(everything: bool) -> None:
        for name in ("WORTH_A_PRODUCT", "WORTH_A_NORM"):
            monkeypatch.setattr(recomputing, name, 1 if everything else NEVER)

    return switch


def test_pieces_are_even_and_small(monkeypatch):
    monkeypatch.setattr(recomputing, "PIECE", 30)
    for count, numbers, lengths in (
        (10, 10, [3, 3, 3, 1]),
        (9, 10, [3, 3, 3]),
        (10, 3, [10]),
        (11, 3, [6, 5]),
        (2, 31, [1, 1]),  # no less than one at a time
    ):
        rows = torch.arange(count)
        parts = [rows[piece] for piece in recomputing.pieces(count, numbers)]
        assert [len(part) for part in parts] == lengths
        assert torch.cat([rows[:0], *parts]).equal(rows)


def train_once(compute, *inputs) -> tuple[list[torch.Tensor], dict[int, int]]:
    """Value and gradients of `compute()`, and the storages kept meanwhile, bytes by address."""
    torch.manual_seed(8)
    with saved_tensors.collected() as kept:
        y = compute()
    gradients = torch.autograd.grad(y.square().sum(), inputs)
    return [y, *gradients], saved_tensors.storages(kept)


class TestOfNormalizedSums:
    @pytest.fixture
    def module(self):
        module = AddNorm(6, dropout=0.3)
        nn.init.normal_(module.norm.weight)
        nn.init.normal_(module.norm.bias)
        return module.train()

    @pytest.fixture
    def inputs(self):
        return [torch.randn(2, 4, 6, requires_grad=True) for _ in range(2)]

    def test_the_product_after_them_keeps_none(self, module, inputs, recompute):
        weight = torch.randn(5, 6, requires_grad=True)
        normalized = {}

        def compute():
            normalized["y"] = module(*inputs)
            return linear(normalized["y"], weight)

        results = []
        for everything in (True, False):
            recompute(everything)
            result, kept = train_once(compute, *inputs, weight, *module.parameters())
            assert (normalized["y"].untyped_storage().data_ptr() in kept) is not everything
            results.append(result)
        for again, plain in zip(*results, strict=True):
            assert plain.abs().max() > 1e-3
            assert again.equal(plain)

    def test_they_are_made_again_bit_for_bit(self, module, inputs, recompute):
        recompute(True)
        y = module.float()(*(x.float() for x in inputs))
        assert y.origin.again().equal(y)

    def test_small_ones_are_kept(self, module, inputs, recompute):
        recompute(False)
        assert not hasattr(module(*inputs), "origin")

    def test_where_it_is_dropped_the_tensor_is_kept(self, module, inputs, recompute):
        recompute(True)
        y = module(*inputs)
        recomputing.drop_origin(y)
        recomputing.drop_origin(y)  # nothing to drop
        weight = torch.randn(5, 6, requires_grad=True)
        _, kept = train_once(lambda: linear(y, weight), weight)
        assert y.untyped_storage().data_ptr() in kept


class TestOfQueriesKeysAndValues:
    @pytest.fixture
    def module(self):
        module = MultiHeadAttention(12, 3, 4, 4)
        for parameter in module.parameters():
            nn.init.normal_(parameter, std=0.3)
        return module.train()

    @pytest.fixture(params=[1, 1 << 20], ids=["sentence by sentence", "whole"])
    def _piece(self, request, monkeypatch):
        monkeypatch.setattr(recomputing, "PIECE", request.param)

    @pytest.fixture(params=["short", "long"])
    def _length(self, request, monkeypatch):
        """By products as by PyTorch's kernel."""
        most = 7 if request.param == "short" else 4
        monkeypatch.setattr(short_attention, "MOST_KEYS", most)

    @pytest.mark.usefixtures("_length", "_piece")
    @pytest.mark.parametrize(
        ("kind", "across"),
        [("plain", False), ("plain", True), ("masked", False), ("masked", True), ("causal", False)],
    )
    def test_value_and_gradients_are_the_same(self, module, kind, across, recompute):
        x = torch.randn(2, 5, 12, requires_grad=True)
        memory = torch.randn(2, 7, 12, requires_grad=True) if across else None
        mask = None
        if kind == "masked":
            mask = torch.rand(2, 1, 1, 7 if across else 5) < 0.5
            mask[..., 0] = True
            assert not mask[0].equal(mask[1])
        inputs = [x, *([memory] if across else []), *module.parameters()]
        results, kept = [], []
        for everything in (True, False):
            recompute(everything)
            result, storages = train_once(
                lambda: module(x, memory, mask, is_causal=kind == "causal")[0], *inputs
            )
            results.append(result)
            own = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
            kept.append(sum(size for place, size in storages.items() if place not in own))
        assert kept[0] < kept[1]
        for number, (again, plain) in enumerate(zip(*results, strict=True)):
            is_key_bias = number and inputs[number - 1] is module.key.bias  # changes no weight
            assert is_key_bias or plain.abs().max() > 1e-3
            torch.testing.assert_close(again, plain, atol=1e-12, rtol=0)

    def test_one_mask_may_serve_all_sentences(self, module, recompute, monkeypatch):
        recompute(True)
        x = torch.randn(2, 5, 12)
        mask = torch.ones(5, 5, dtype=torch.bool).tril()
        monkeypatch.setattr(recomputing, "PIECE", 1)
        expected, _ = module(x, is_causal=True)
        for each in (mask, mask[None, None]):
            torch.testing.assert_close(module(x, mask=each)[0], expected, atol=1e-12, rtol=0)

    def test_inputs_of_any_strides_do(self, module, recompute):
        recompute(True)
        x = torch.randn(5, 2, 12, requires_grad=True)
        own = x.detach().transpose(0, 1).contiguous().requires_grad_()
        for one in (x.transpose(0, 1), own):
            module(one)[0].square().sum().backward()
        assert x.grad.transpose(0, 1).equal(own.grad) and own.grad.abs().max() > 1e-3

    @pytest.mark.usefixtures("_piece")
    def test_in_bfloat16_they_are_near(self, module, recompute):
        x = torch.randn(2, 5, 12, dtype=torch.bfloat16, requires_grad=True)
        module, results = module.bfloat16(), []
        for everything in (True, False):
            recompute(everything)
            results.append(train_once(lambda: module(x)[0], x, *module.parameters())[0])
        for again, plain in zip(*results, strict=True):
            assert again.dtype == plain.dtype == torch.bfloat16
            torch.testing.assert_close(again, plain, atol=2e-2, rtol=2e-2)

    @pytest.mark.usefixtures("_length")
    def test_finite_differences_agree(self, module, recompute):
        recompute(True)
        x, memory = (torch.randn(1, n, 12, requires_grad=True) for n in (3, 4))
        assert torch.autograd.gradcheck(lambda x: module(x, is_causal=True)[0], (x,))
        assert torch.autograd.gradcheck(lambda x, y: module(x, y)[0], (x, memory))

    @pytest.mark.parametrize("cause", ["cache", "weights", "dropout", "widths"])
    def test_not_where_more_is_asked_for(self, cause, module, recompute, monkeypatch):
        recompute(True)
        monkeypatch.setattr(
            "vaswani_plugin.modules.attention.forgetful_attention",
            lambda *_: pytest.fail("it can't do that"),
        )
        module = MultiHeadAttention(12, 3, 4, 5) if cause == "widths" else module
        module.dropout = 0.5 if cause == "dropout" else 0.0
        cache = {} if cause == "cache" else None
        _, weights = module(torch.randn(2, 5, 12), cache=cache, need_weights=cause == "weights")
        assert (weights is None) is (cause != "weights")
        assert (cause == "cache") is bool(cache)
