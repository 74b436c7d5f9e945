"""Alignments of source and target words, from the attention of a finished hypothesis.

The formats are those that fairseq's commands print for `--print-alignment`.

Axes: S source length, T target length.
"""

import torch
from torch import Tensor


def hard_alignment(
    attention: Tensor, source: Tensor, target: Tensor, pad: int, eos: int
) -> list[tuple[int, int]]:
    """Find for each target word the source word with the highest attention.

    Args:
        attention: (T, S).
        source: (S,), padded on either side.
        target: (T,).
        pad, eos: numbers of the padding and of the end of sentence.

    Returns:
        Pairs (source word, target word) in the order of the target, counted from 0 without padding
        and ends of sentence; empty where either side has no word.
    """
    is_source, is_target = _is_word(source, pad, eos), _is_word(target, pad, eos)
    if not bool(is_source.any()) or not bool(is_target.any()):
        return []
    found = attention[is_target][:, is_source].argmax(dim=1)
    return [(word, number) for number, word in enumerate(found.tolist())]


def soft_alignment(
    attention: Tensor, source: Tensor, target: Tensor, pad: int, eos: int
) -> list[list[str]]:
    """Format each target token's attention to every source token, with six decimals.

    Args:
        attention: (T, S).
        source: (S,), padded on either side.
        target: (T,).
        pad: number of the padding, which is left out; ends of sentence are kept.
        eos: unused, for the same arguments as `hard_alignment`.

    Returns:
        One row per target token.
    """
    rows = attention[target.ne(pad)][:, source.ne(pad)].tolist()
    return [[f"{weight:.6f}" for weight in row] for row in rows if row]


def _is_word(tokens: Tensor, pad: int, eos: int) -> Tensor:
    return torch.logical_and(tokens.ne(pad), tokens.ne(eos))
