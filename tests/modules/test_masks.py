"""Masks against their definition, position by position."""

import pytest
import torch

from vaswani_plugin.modules import attention


@pytest.mark.parametrize("window", [0, 1, 2, 3, 5, 9])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (5, 5), (1, 5), (2, 6), (8, 8)])
def test_causal_mask(queries, keys, window):
    mask = attention.causal_mask(queries, keys, window)
    assert mask.shape == (queries, keys) and mask.dtype == torch.bool
    for row in range(queries):
        position = keys - queries + row
        seen = {key for key in range(keys) if mask[row, key]}
        past = list(range(position + 1))
        assert seen == set(past[-window:] if window else past)


@pytest.mark.parametrize("window", range(1, 12))
def test_neighbourhood_has_r_positions_around_each(window):
    length = 9
    mask = attention.neighbourhood(window).mask(length)
    assert mask.shape == (length, length) and mask.dtype == torch.bool
    for position in range(length):
        around = range(position - window // 2, position - window // 2 + window)
        assert position in around and len(around) == window
        seen = {key for key in range(length) if mask[position, key]}
        assert seen == {key for key in around if 0 <= key < length}


@pytest.mark.parametrize("window", [1, 2, 3, 9])
def test_where_padding_is_hidden_every_position_still_sees_itself(window):
    tokens = torch.tensor([[1, 1, 1, 1, 5, 2], [4, 5, 2, 1, 1, 1]])
    near = attention.neighbourhood(window).mask(6)
    mask = attention.hide_padding(near, tokens, padding_idx=1)
    assert mask.equal(attention.neighbourhood(window, attention.padding_mask(tokens, 1)).mask(6))
    assert mask.shape == (2, 1, 6, 6)
    for row in range(2):
        for query in range(6):
            for key in range(6):
                expected = query == key or bool(near[query, key] and tokens[row, key] != 1)
                assert mask[row, 0, query, key] == expected


@pytest.mark.parametrize("window", [0, 1, 3])
@pytest.mark.parametrize("past", [0, 2])
@pytest.mark.parametrize("right_padded", [False, True])
def test_past_mask(window, past, right_padded):
    """No position sees nothing: a softmax over nothing is NaN on some devices."""
    tokens = torch.tensor([[1, 1, 1, 1, 5, 2], [4, 5, 2, 1, 1, 1]])
    mask = attention.past_mask(tokens, 1, past, window, right_padded)
    if right_padded and not past and not window:
        assert mask is None  # what `is_causal` hides is enough
        return
    if not past and window:
        assert isinstance(mask, attention.Window)
        mask = mask.mask(6)
    mask = mask.expand(2, 1, 6 - past, 6)
    for row in range(2):
        for query in range(past, 6):
            earliest = query - window + 1 if window else 0
            for key in range(6):
                may = right_padded or tokens[row, key] != 1
                expected = query == key or bool(earliest <= key < query and may)
                assert mask[row, 0, query - past, key] == expected
