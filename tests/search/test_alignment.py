"""Alignments out of attention are those that fairseq's own functions extract."""

import torch
from fairseq import utils
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani_plugin.search.search import hard_alignment, soft_alignment

PAD, EOS = 1, 2
TOKENS = st.lists(st.sampled_from([PAD, EOS, 4, 5, 6]), min_size=1, max_size=7)


@settings(deadline=None)
@given(TOKENS, TOKENS, st.integers(0, 1000))
def test_they_are_fairseqs(source, target, seed):
    generator = torch.Generator().manual_seed(seed)
    attention = torch.rand(len(target), len(source), generator=generator).softmax(dim=1)
    rows = torch.tensor(source), torch.tensor(target), PAD, EOS
    expected = utils.extract_hard_alignment(attention.clone(), *rows)  # it writes into it
    assert hard_alignment(attention, *rows) == expected
    assert soft_alignment(attention, *rows) == utils.extract_soft_alignment(attention, *rows)


def test_words_are_counted_without_padding_and_ends():
    attention = torch.tensor([[0.9, 0.1, 0.2, 0.0], [0.9, 0.3, 0.1, 0.0], [0.5, 0.5, 0.5, 0.5]])
    source, target = torch.tensor([PAD, 7, 8, EOS]), torch.tensor([9, 10, EOS])
    before = attention.clone()
    assert hard_alignment(attention, source, target, PAD, EOS) == [(1, 0), (0, 1)]
    assert torch.equal(attention, before), "the attention is the caller's"


def test_six_decimals():
    attention = torch.tensor([[0.25, 0.75]])
    found = soft_alignment(attention, torch.tensor([5, EOS]), torch.tensor([EOS]), PAD, EOS)
    assert found == [["0.250000", "0.750000"]]
