"""Training FLOPs: the paper's two figures, and multiply-adds against PyTorch's own counter."""

import math

import pytest
import torch
from model_factory import SIZES, make_model, make_task, random_batch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from vaswani_plugin.metrics.cost import DEVICES, PAPER_TRAININGS, flops_by_time
from vaswani_plugin.metrics.multiply_adds import (
    TransformerSizes,
    forward_multiply_adds,
    training_flops,
)
from vaswani_plugin.metrics.published import TABLE_2


def test_the_papers_figures_from_their_inputs() -> None:
    base, big = PAPER_TRAININGS
    assert base.flops == pytest.approx(12 * 3600 * 8 * 9.5e12)
    assert big.flops == pytest.approx(3.5 * 86400 * 8 * 9.5e12)
    # As printed: two digits.
    assert [f"{training.flops:.1e}" for training in PAPER_TRAININGS] == ["3.3e+18", "2.3e+19"]
    assert [training.printed_flops for training in PAPER_TRAININGS] == [3.3e18, 2.3e19]
    rows = {row.model: row for row in TABLE_2}
    for training in PAPER_TRAININGS:
        assert rows[training.model].flops_en_de == training.printed_flops


def test_devices_name_what_their_rate_is() -> None:
    sustained = {d.name: d.teraflops for d in DEVICES.values() if d.kind == "sustained"}
    assert sustained == {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}
    others = [d for d in DEVICES.values() if d.kind != "sustained"]
    assert others and all(d.kind == "peak" and d.source for d in others)


@pytest.mark.parametrize("inputs", [(0, 1, 1.0), (1.0, 0, 1.0), (1.0, 1, -2.0), (math.nan, 1, 1)])
def test_numbers_that_make_no_cost(inputs: tuple) -> None:
    with pytest.raises(ValueError, match="must be a number above 0"):
        flops_by_time(*inputs)


@pytest.mark.parametrize(
    ("changes", "shape"),
    [
        ({}, (3, 7, 5)),
        ({"d_k": 6, "d_v": 10}, (2, 4, 9)),
        ({"heads": 1, "encoder_layers": 3, "decoder_layers": 1}, (1, 1, 1)),
        ({"share_embeddings": "none", "positions": "learned"}, (2, 6, 3)),
    ],
)
def test_counts_are_pytorchs(changes: dict, shape: tuple[int, int, int]) -> None:
    sentences, source, target = shape
    task = make_task(23)
    model = make_model(task, **changes).train()
    batch = random_batch(task, [(source, target)] * sentences)
    # The counter knows PyTorch's matrix products, not the CPU's fused attention nor oneDNN's.
    plain = sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False)
    with plain[0], plain[1], FlopCounterMode(display=False) as counter:
        logits = model(**batch)[0]
        forward = counter.get_total_flops()
        logits.logsumexp(dim=-1).sum().backward()
    config = {**SIZES, "d_k": 32 // changes.get("heads", 4), **changes}
    config.setdefault("d_v", config["d_k"])
    names = ("d_model", "d_ff", "encoder_layers", "decoder_layers", "heads", "d_k", "d_v")
    vocabulary = len(task.target_dictionary)
    sizes = TransformerSizes(**{name: config[name] for name in names}, vocabulary=vocabulary)
    assert logits.shape == (sentences, target, vocabulary) and logits.dtype == torch.float32
    assert 2 * sum(forward_multiply_adds(sizes, *shape).values()) == forward
    assert training_flops(sizes, *shape) == counter.get_total_flops()


def test_base_by_hand() -> None:
    base = TransformerSizes(512, 2048, 6, 6, 8, 64, 64, 40_960)
    parts = forward_multiply_adds(base, 1, 10, 20)
    d, layers = 512, 6
    assert parts["encoder feed-forward"] == layers * 10 * 2 * d * 2048
    assert parts["encoder self-attention, projections"] == layers * 10 * 4 * d * d
    assert parts["encoder self-attention, Eq. 1"] == layers * 2 * 10 * 10 * d
    assert parts["encoder-decoder attention, projections"] == layers * (10 + 20) * 2 * d * d
    assert parts["encoder-decoder attention, Eq. 1"] == layers * 2 * 20 * 10 * d
    assert parts["projection to the vocabulary"] == 20 * d * 40_960


@pytest.mark.parametrize("shape", [(0, 5, 5), (1, 0, 5), (1, 5, -1)])
def test_empty_batches_are_refused(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        forward_multiply_adds(TransformerSizes(8, 8, 1, 1, 1, 8, 8, 10), *shape)


def test_table_2_has_the_published_rows() -> None:
    assert len(TABLE_2) == 10
    gnmt = next(row for row in TABLE_2 if row.model == "GNMT + RL, ensemble")
    assert (gnmt.bleu_en_de, gnmt.bleu_en_fr) == (26.30, 41.16)
    assert (gnmt.flops_en_de, gnmt.flops_en_fr) == (1.8e20, 1.1e21)
    best = max(TABLE_2, key=lambda row: row.bleu_en_de or 0)
    assert best.model == "Transformer (big)" and best.bleu_en_de == 28.4
