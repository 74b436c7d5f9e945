"""The initial weights of a built model, by their spread."""

import math

import pytest
import torch
from fairseq.data import Dictionary
from torch import nn

from vaswani_plugin.model.build import build, build_language_model
from vaswani_plugin.model.configuration import Configuration

D, D_FF = 64, 256


def xavier(inputs: int, outputs: int) -> float:
    """Standard deviation of Glorot and Bengio's uniform distribution."""
    return math.sqrt(2 / (inputs + outputs))


SPREADS = {
    # of W^Q, W_1, W_2 and the embedding
    "own": (xavier(D, 3 * D), (3 * D) ** -0.5, (3 * D_FF) ** -0.5, D**-0.5),
    "xavier": (xavier(D, D), xavier(D, D_FF), xavier(D_FF, D), D**-0.5),
    "normal": (0.02, 0.02, 0.02, 0.02),
}


@pytest.mark.parametrize("family", ["translation", "language model"])
@pytest.mark.parametrize("name", SPREADS)
def test_spread(name, family):
    torch.manual_seed(1)
    sizes = {"d_model": D, "d_ff": D_FF, "encoder_layers": 1, "decoder_layers": 1, "heads": 2}
    cfg = Configuration(**sizes, initial_weights=name)
    words = Dictionary()
    for number in range(400):
        words.add_symbol(str(number))
    if family == "translation":
        halves = build(cfg, words, words)
        layer, embedding = halves.decoder.layers[0], halves.decoder.embedding
    else:
        model = build_language_model(cfg, words)
        layer, embedding = model.layers[0], model.embedding
    network = layer.feed_forward
    found = (layer.self_attention.query, network.w_1, network.w_2, embedding)
    for module, spread in zip(found, SPREADS[name], strict=True):
        assert module.weight.std().item() == pytest.approx(spread, rel=0.04)
    assert not embedding.weight[words.pad()].any()
    if name != "own":
        biases = (module.bias for module in layer.modules() if isinstance(module, nn.Linear))
        assert not any(bias.any() for bias in biases)
