"""Packed weights follow every change of a model, or step aside for its own `forward`."""

import copy

import pytest
import torch
from search_setup import (
    as_function,
    make_generator,
    make_peaked_model,
    make_sample,
    make_translation_task,
    outputs_of,
)
from torch import nn

from vaswani_plugin.kernels.packed_step import is_packable
from vaswani_plugin.modules.feed_forward import FeedForward

SYMBOLS = 30
SOURCES = [[7, 9, 12, 5], [8, 11], [20, 21, 22, 23, 24, 25]]


@pytest.fixture
def model():
    return make_peaked_model(SYMBOLS)


@pytest.fixture
def generator(model):
    return make_generator(make_translation_task(SYMBOLS), [model], max_len_b=6)


def translate(generator):
    found = generator.generate(generator.models, make_sample(SOURCES))
    return [outputs_of(hypotheses) for hypotheses in found]


def fresh_translation(model):
    """By a generator that has seen no other weights."""
    task = make_translation_task(SYMBOLS)
    return translate(make_generator(task, [model], max_len_b=6))


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert [tokens for tokens, _ in one] == [tokens for tokens, _ in other]
        for (_, score), (_, same) in zip(one, other, strict=True):
            assert score == pytest.approx(same, abs=1e-4)


def packed_of(generator):
    return generator.models[0]._packing._kept[2]


def test_final_weights_that_stay_are_packed_once(generator, model):
    translate(generator)
    before = packed_of(generator)
    translate(generator)
    assert packed_of(generator) is not before is not None
    model.make_generation_fast_()
    packed = packed_of(generator)
    translate(generator)
    assert packed_of(generator) is packed


def load_other_weights(model):
    model.load_state_dict(make_peaked_model(SYMBOLS, seed=9).state_dict())


def train_one_step(model):
    for parameter in model.decoder.parameters():
        parameter.grad = torch.ones_like(parameter)
    torch.optim.SGD(model.decoder.parameters(), lr=0.05).step()


def write_through_data(model):
    """As fairseq's own Adam does, which no version counts."""
    model.decoder.layers[0].self_attention.value.weight.data.mul_(3)


def replace_a_parameter(model):
    layer = model.decoder.layers[1].feed_forward.w_2
    layer.weight = nn.Parameter(-layer.weight.detach())


def load_final_weights_anew(model):
    model.make_generation_fast_()
    load_other_weights(model)


@pytest.mark.parametrize(
    "change",
    [
        *(load_other_weights, train_one_step, write_through_data, replace_a_parameter),
        *(load_final_weights_anew, torch.nn.Module.bfloat16, torch.nn.Module.double),
    ],
)
def test_changed_weights_are_packed_anew(generator, model, change):
    before = translate(generator)
    change(model)
    after = translate(generator)
    assert_same(after, fresh_translation(copy.deepcopy(model)))
    assert after != before


def test_forward_hooks_are_called(generator, model):
    plain = translate(generator)
    calls = []
    hook = model.decoder.layers[1].register_forward_hook(lambda *_: calls.append(1))
    assert_same(translate(generator), plain)
    assert calls
    hook.remove()
    model.decoder.layers[1].feed_forward.register_forward_hook(lambda module, x, y: -y)
    assert translate(generator) != plain


def test_a_parametrized_weight_counts(generator, model):
    before = translate(generator)

    class Negative(nn.Module):
        def forward(self, weight):
            return -weight

    w_2 = model.decoder.layers[0].feed_forward.w_2
    nn.utils.parametrize.register_parametrization(w_2, "weight", Negative())
    found = translate(generator)
    nn.utils.parametrize.remove_parametrizations(w_2, "weight")  # the negative one stays
    assert_same(found, fresh_translation(model))
    assert found != before


class Gelu(FeedForward):
    def forward(self, x):
        return self.w_2(nn.functional.gelu(self.w_1(x)))


def test_what_the_kernel_does_not_know_it_leaves_alone(generator, model):
    """Another class, or one more attribute of a class that it knows."""
    plain = translate(generator)
    layer = model.decoder.layers[0]
    assert is_packable(model.decoder)
    layer.feed_forward.activation = "gelu"
    assert not is_packable(model.decoder)
    assert_same(translate(generator), plain)
    other = Gelu(*layer.feed_forward.w_1.weight.shape[::-1])
    other.load_state_dict(layer.feed_forward.state_dict())
    layer.feed_forward = other
    assert not is_packable(model.decoder) and not is_packable(nn.Linear(3, 3))
    changed = translate(generator)
    assert changed != plain
    for source, found in zip(SOURCES, changed, strict=True):
        log_p = as_function([model], source)
        (tokens, score) = found[0]
        own = sum(log_p(tokens[:n])[token] for n, token in enumerate(tokens))
        assert score == pytest.approx(own / ((5 + len(tokens)) / 6) ** 0.6, abs=1e-4)
