"""Multiply-adds of batches whose sentences differ in length, and of a language model."""

import itertools
import random
from dataclasses import replace

import pytest
from language_models import (
    LSTM_SIZES,
    ONE_LAYER_SIZES,
    SIZES,
    make_language_model,
    make_lstm_model,
    make_one_layer_model,
)
from model_factory import make_task
from torch import randint
from torch.backends import mkldnn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from vaswani_plugin.metrics.ancestor_multiply_adds import RecurrentLanguageModelSizes
from vaswani_plugin.metrics.multiply_adds import (
    OneLayerSizes,
    Positions,
    TransformerSizes,
    forward_multiply_adds,
    training_flops,
    training_flops_of,
)


def test_sentences_of_any_lengths_cost_what_each_costs_alone() -> None:
    rng = random.Random(4)
    sizes = TransformerSizes(12, 20, 2, 3, 4, 5, 7, 31)
    pairs = [(rng.randint(1, 9), rng.randint(1, 9)) for _ in range(6)]
    alone = [forward_multiply_adds(sizes, 1, source, target) for source, target in pairs]
    together = Positions(
        source=sum(s for s, _ in pairs),
        target=sum(t for _, t in pairs),
        source_pairs=sum(1 for s, _ in pairs for _ in itertools.product(range(s), range(s))),
        target_pairs=sum(1 for _, t in pairs for _ in itertools.product(range(t), range(t))),
        cross_pairs=sum(1 for s, t in pairs for _ in itertools.product(range(s), range(t))),
        predicted=sum(t for _, t in pairs),
    )
    found = sizes.multiply_adds(together)
    assert found == {part: sum(each[part] for each in alone) for part in alone[0]}
    assert training_flops_of(sizes, together) == sum(training_flops(sizes, 1, *p) for p in pairs)


def test_the_next_word_costs_a_matrix() -> None:
    sizes = TransformerSizes(12, 20, 2, 3, 4, 5, 7, 31)
    found = forward_multiply_adds(replace(sizes, next_word=True), 2, 8, 9)
    assert found.pop("projection of words") == 2 * 8 * 12 * 12
    assert found == forward_multiply_adds(sizes, 2, 8, 9)


def test_what_is_not_learned_is_not_projected() -> None:
    sizes = TransformerSizes(12, 20, 0, 3, 4, 5, 7, 31)
    whole = Positions(0, 10, 0, 100, 0, 10)
    part = Positions(0, 10, 0, 100, 0, 4)
    found, less = sizes.multiply_adds(whole), sizes.multiply_adds(part)
    assert found.pop("projection to the vocabulary") == 10 * 12 * 31
    assert less.pop("projection to the vocabulary") == 4 * 12 * 31
    assert found == less


def counted(model, tokens) -> int:
    """FLOPs of a training step by PyTorch's counter, which knows no fused kernels."""
    plain = sdpa_kernel(SDPBackend.MATH), mkldnn.flags(enabled=False)
    with plain[0], plain[1], FlopCounterMode(display=False) as counter:
        model(tokens)[0].logsumexp(dim=-1).sum().backward()
    return counter.get_total_flops()


def test_a_window_costs_what_pytorch_counts() -> None:
    task = make_task(23)
    model = make_language_model(task, attention_window=3).float().train()
    sentences, length, vocabulary = 2, 12, len(task.target_dictionary)  # four whole blocks
    tokens = randint(task.target_dictionary.nspecial, vocabulary, (sentences, length))
    width = SIZES["d_model"] // SIZES["heads"]
    sizes = TransformerSizes(
        SIZES["d_model"], SIZES["d_ff"], 0, SIZES["decoder_layers"], SIZES["heads"],
        width, width, vocabulary, window=3,
    )  # fmt: skip
    count = sentences * length
    batch = Positions(0, count, 0, count * length, 0, count)
    assert training_flops_of(sizes, batch) == counted(model, tokens)


@pytest.mark.parametrize("projections", [True, False])
def test_the_one_layer_models_counts_are_pytorchs(projections: bool) -> None:
    task, width = make_task(23), ONE_LAYER_SIZES["d_model"]
    changes = {"no_projections": not projections, "d_hidden": width}
    model = make_one_layer_model(task, **changes).float().train()
    sentences, length, vocabulary = 3, 7, len(task.target_dictionary)
    tokens = randint(task.target_dictionary.nspecial, vocabulary, (sentences, length))
    sizes = OneLayerSizes(width, width, ONE_LAYER_SIZES["d_ff"], vocabulary, projections)
    count = sentences * length
    batch = Positions(0, count, 0, count * length, 0, count)
    assert training_flops_of(sizes, batch) == counted(model, tokens)


@pytest.mark.parametrize("layers", [1, 3])
def test_the_recurrent_language_models_counts_are_pytorchs(layers: int) -> None:
    task = make_task(23)
    model = make_lstm_model(task, layers=layers).float().train()
    sentences, length, vocabulary = 3, 7, len(task.target_dictionary)
    tokens = randint(task.target_dictionary.nspecial, vocabulary, (sentences, length))
    sizes = RecurrentLanguageModelSizes(
        LSTM_SIZES["d_model"], LSTM_SIZES["units"], layers, vocabulary
    )
    with mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        logits = model(tokens)[0]
        forward = counter.get_total_flops()
    found = sizes.multiply_adds(Positions.uniform(sentences, 0, length))
    assert 2 * sum(found.values()) == forward
    # The state before the first word is a constant, which needs no gradient.
    assert training_flops(sizes, sentences, length, length) == pytest.approx(
        counted(model, tokens), rel=0.1
    )
    assert logits.shape == (sentences, length, vocabulary)


def test_a_language_models_counts_are_pytorchs() -> None:
    task = make_task(23)
    model = make_language_model(task).float().train()
    sentences, length, vocabulary = 3, 7, len(task.target_dictionary)
    tokens = randint(task.target_dictionary.nspecial, vocabulary, (sentences, length))
    plain = sdpa_kernel(SDPBackend.MATH), mkldnn.flags(enabled=False)
    with plain[0], plain[1], FlopCounterMode(display=False) as counter:
        model(tokens)[0].logsumexp(dim=-1).sum().backward()
    width = SIZES["d_model"] // SIZES["heads"]
    sizes = TransformerSizes(
        SIZES["d_model"], SIZES["d_ff"], 0, SIZES["decoder_layers"], SIZES["heads"],
        width, width, vocabulary,
    )  # fmt: skip
    count = sentences * length
    batch = Positions(0, count, 0, count * length, 0, count)
    assert training_flops_of(sizes, batch) == counter.get_total_flops()
