"""Multiply-adds of LSTMs and convolutions against those that PyTorch carries out."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.models.fconv import FConvModel, base_architecture
from model_factory import make_task, random_batch
from recurrent_models import KINDS, SIZES, make_recurrent
from torch.utils.flop_counter import FlopCounterMode

from vaswani_plugin.metrics.ancestor_multiply_adds import ConvolutionalSizes, RecurrentSizes
from vaswani_plugin.metrics.multiply_adds import Positions, training_flops


def count_convolution(
    x: tuple, weight: tuple, bias: tuple, padding: int = 0, *_: object, **unused: object
) -> int:
    """FLOPs of conv_tbc over T x B x C, one product after the other.

    The decoder's convolution also fills places behind the last one, and drops them: those aren't
    counted.
    """
    (length, batch, inputs), (kernel, _, outputs) = x, weight
    flops = 0
    for _ in range(length):
        for _ in range(kernel):
            flops += 2 * batch * inputs * outputs
    return flops


def counter() -> FlopCounterMode:
    mapping = {torch.ops.aten.conv_tbc: count_convolution}
    return FlopCounterMode(display=False, custom_mapping=mapping)


COUNTED_AS = {
    **{"attention": "dot", "input feeding": "dot", "scaled-dot": "dot"},
    **{"additive": "additive", "mean": "mean"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("changes", "shape"), [({}, (3, 7, 5)), ({"layers": 3}, (1, 1, 4))])
def test_lstm_counts_are_pytorchs(kind: str, changes: dict, shape: tuple[int, int, int]) -> None:
    sentences, source, target = shape
    task = make_task(23)
    model = make_recurrent(kind, task, **changes).train()
    batch = random_batch(task, [(source, target)] * sentences)
    # The counter doesn't know oneDNN's LSTM.
    with torch.backends.mkldnn.flags(enabled=False), counter() as counted:
        logits = model(**batch)[0]
        forward = counted.get_total_flops()
        logits.logsumexp(dim=-1).sum().backward()
    config = {**SIZES, **changes}
    sizes = RecurrentSizes(
        config["d_model"],
        config["layers"],
        len(task.target_dictionary),
        both_ways=kind not in ("seq2seq", "forwards"),
        attention=COUNTED_AS.get(kind, "none"),
        input_feeding=kind == "input feeding",
    )
    parts = sizes.multiply_adds(Positions.uniform(*shape))
    assert 2 * sum(parts.values()) == forward
    # Embeddings are inputs: all factors need gradients, but for a state of zeros.
    assert training_flops(sizes, *shape) == pytest.approx(counted.get_total_flops(), rel=0.15)


@pytest.mark.parametrize(
    ("encoder", "decoder", "shape"),
    [
        ("[(16, 3)] * 2", "[(16, 3)] * 3", (3, 7, 5)),
        ("[(8, 5)] + [(12, 1)]", "[(8, 2)] + [(20, 3)]", (2, 4, 9)),
    ],
)
def test_convolution_counts_are_pytorchs(
    encoder: str, decoder: str, shape: tuple[int, int, int]
) -> None:
    sentences, source, target = shape
    task = make_task(23)
    args = SimpleNamespace(
        encoder_embed_dim=10, decoder_embed_dim=10, decoder_out_embed_dim=6,
        encoder_layers=encoder, decoder_layers=decoder,
        max_source_positions=32, max_target_positions=32,
    )  # fmt: skip
    base_architecture(args)
    model = FConvModel.build_model(args, task)
    batch = random_batch(task, [(source, target)] * sentences)
    with counter() as counted:
        model(**batch)
    sizes = ConvolutionalSizes(
        10, tuple(eval(encoder)), tuple(eval(decoder)), 6, len(task.target_dictionary)
    )
    parts = sizes.multiply_adds(Positions.uniform(*shape))
    assert 2 * sum(parts.values()) == counted.get_total_flops()
