"""FLOPs counted in models without data, against formulas by hand and a real training step."""

import pytest
import torch
from model_factory import SIZES, make_model, make_task, random_batch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tests.conftest import ancestors
from vaswani_plugin.figures.flops import TRAINING_PASSES, forward_flops
from vaswani_plugin.model.families import TRANSLATOR, row_of


def count(arch: str, shape: tuple[int, int, int], vocabulary: int = 100, **changes) -> int:
    family, row = row_of(arch)
    return forward_flops(family, row.changes | changes, vocabulary, shape)


def transformer(b: int, s: int, t: int, v: int, d_k=64, d_v=64) -> int:
    """Every product of section 3: projections, Eq. 1, feed-forward, the output."""
    d, ff, n, heads = 512, 2048, 6, 8
    attention = lambda queries, keys: (  # noqa: E731
        d * heads * (d_k * (queries + keys) + d_v * (queries + keys))
        + heads * (d_k + d_v) * queries * keys
    )
    encoder = n * (attention(s, s) + 2 * s * d * ff)
    return 2 * b * (encoder + n * (attention(t, t) + attention(t, s) + 2 * t * d * ff) + t * d * v)


@pytest.mark.parametrize("shape", [(1, 10, 20), (3, 7, 5)])
def test_a_transformer_by_hand(shape):
    assert count("vaswani_base", shape, 40_960) == transformer(*shape, 40_960)
    assert count("vaswani_parser_tiny", shape, 999) == count("vaswani_parser_tiny", shape, 128)
    assert count("vaswani_b_dk16", shape) == transformer(*shape, 100, d_k=16, d_v=64)


@ancestors
def test_the_others_by_hand():
    d, units = 192, 4 * 192
    reading, writing = 2 * 2 * 4 * 96 * (d + 96), units * 2 * d * 2  # two ways, two layers each
    attention = 2 * d * 15 + 2 * d * d * 5
    found = count("vaswani_attention_lstm_tiny", (1, 3, 5), attention="dot")
    first = 3 * (2 * 4 * 96 * (d + 96)) * 2
    assert found == 2 * (first + 5 * writing + attention + 5 * d * 100)
    assert 3 * reading == first
    d = 1000
    found = count("vaswani_seq2seq_lstm", (2, 3, 5))
    assert found == 2 * 2 * (8 * 4 * 4 * d * 2 * d + 5 * d * 100)
    # A language model has no source; the notes' model has one layer.
    layer = 4 * 128 * 128 + 2 * 9 * 128 + 2 * 128 * 256
    assert count("vaswani_lm_tiny", (1, 4, 9)) == 2 * (4 * 9 * layer + 9 * 128 * 100)
    one = 3 * 128 * 128 + 2 * 9 * 128 + 2 * 128 * 256
    assert count("vaswani_lm_one_layer_tiny", (1, 4, 9)) == 2 * (9 * one + 9 * 128 * 100)
    lstm = 4 * 256 * (128 + 256) + 4 * 128 * (256 + 128)
    assert count("vaswani_lm_lstm_tiny", (1, 4, 9)) == 2 * (9 * lstm + 9 * 128 * 100)


@pytest.mark.parametrize(
    "changes", [{"d_k": 6, "d_v": 10}, {"heads": 1, "encoder_layers": 3, "decoder_layers": 1}]
)
def test_three_passes_are_those_of_a_training_step(changes):
    task = make_task(23)
    model = make_model(task, **changes).train()
    batch = random_batch(task, [(7, 5)] * 3)
    # The counter knows PyTorch's matrix products, not the CPU's fused attention nor oneDNN's.
    plain = sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False)
    with plain[0], plain[1], FlopCounterMode(display=False) as counter:
        model(**batch)[0].logsumexp(dim=-1).sum().backward()
    vocabulary = len(task.target_dictionary)
    forward = forward_flops(TRANSLATOR, {**SIZES, **changes}, vocabulary, (3, 7, 5))
    assert TRAINING_PASSES * forward == counter.get_total_flops()
