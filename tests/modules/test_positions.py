"""Positional encodings equal the formulas of section 3.5, wherever the padding is."""

import numpy as np
import paper_reference
import pytest
import torch
from fairseq.modules import SinusoidalPositionalEmbedding
from reference_weights import default_dtype

from vaswani_plugin.modules.embedding import (
    LearnedPositions,
    SinusoidalPositions,
    add_positions,
    fairseq_sinusoids,
    position_ids,
    sinusoids,
)

PAD = 1
POSITIONS = [0, 1, 2, 17, 1023]


@pytest.mark.parametrize("d_model", [2, 6, 512])
def test_the_papers_sinusoids(d_model):
    encoded = sinusoids(torch.tensor(POSITIONS), d_model)
    assert encoded.dtype == torch.float64
    for row, position in zip(encoded, POSITIONS, strict=True):
        expected = paper_reference.sinusoid(position, d_model)
        np.testing.assert_allclose(row.numpy(), expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("left_pad", [False, True])
def test_fairseqs_sinusoids_are_those_of_its_own_module(left_pad):
    sentence, padding = [7, 9, 4, 2], [PAD] * 3
    tokens = torch.tensor([padding + sentence if left_pad else sentence + padding])
    theirs = SinusoidalPositionalEmbedding(16, PAD, init_size=64)(tokens)
    ours = SinusoidalPositions(64, 16, fairseq_sinusoids)(position_ids(tokens, PAD))
    real = tokens.ne(PAD)
    assert theirs[real].abs().max() > 0.5
    torch.testing.assert_close(ours[real], theirs[real], atol=2e-6, rtol=0)


def test_positions_count_real_tokens_from_0():
    tokens = torch.tensor([[PAD, PAD, 5, 6, 2], [5, 6, 2, PAD, PAD], [8, 9, 5, 6, 2]])
    numbered = position_ids(tokens, PAD)
    assert numbered[0, 2:].tolist() == [0, 1, 2]
    assert numbered[1, :3].tolist() == [0, 1, 2]
    assert numbered[2].tolist() == [0, 1, 2, 3, 4]
    assert ((numbered >= 0) & (numbered < 5)).all()  # padding too indexes a table of 5


def test_the_table_holds_the_formula_and_no_checkpoint_does():
    module = SinusoidalPositions(20, 6)
    looked_up = module(torch.tensor([[3, 0], [19, 7]]))
    assert looked_up.shape == (2, 2, 6) and looked_up.dtype == torch.float32
    for place, position in (((0, 0), 3), ((0, 1), 0), ((1, 0), 19), ((1, 1), 7)):
        expected = paper_reference.sinusoid(position, 6)
        np.testing.assert_allclose(looked_up[place].numpy(), expected, atol=1e-7, rtol=0)
    assert not module.state_dict()


def test_learned_positions_are_trained():
    module = LearnedPositions(20, 6)
    assert [tuple(p.shape) for p in module.parameters()] == [(20, 6)]
    module(torch.tensor([[3, 3]])).sum().backward()
    assert module.weight.grad[3].tolist() == [2.0] * 6
    assert module.weight.grad.abs().sum() == 12


@pytest.mark.parametrize("by_default", [False, True])
def test_neighbours_differ_in_half_precision(by_default):
    """Positions stay in float32, and the sum is rounded once."""
    dtype = torch.bfloat16
    with default_dtype(dtype if by_default else torch.float32):
        module = SinusoidalPositions(64, 512)
    module = module if by_default else module.to(dtype)
    numbers = torch.arange(64)[None]
    table = module(numbers)[0]
    assert table.dtype == torch.float32
    assert (table.std(dim=0) > 0).all()
    exact = sinusoids(numbers[0], 512)
    torch.testing.assert_close(table.double(), exact, atol=1e-7, rtol=0)
    x = torch.full((1, 64, 512), 0.001, dtype=dtype)
    added = add_positions(x, module(numbers))
    assert added.dtype == dtype
    assert torch.equal(added[0], (x[0].double() + exact).float().to(dtype))


def test_positions_beyond_the_table_are_those_of_the_formula():
    many, few = SinusoidalPositions(2_000_000_000, 8), SinusoidalPositions(100, 8)
    numbers = torch.tensor([[0, 7, 99]])
    torch.testing.assert_close(many(numbers), few(numbers))
    assert torch.isfinite(many(torch.tensor([[1_999_999_999]]))).all()
