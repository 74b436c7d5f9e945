"""`data_utils_fast`, without batches of fixed shapes, and `token_block_utils_fast`, in NumPy."""

import sys
from collections.abc import Callable

import numpy as np


def batch_by_size_vec(indices, num_tokens_vec, max_tokens, max_sentences, bsz_mult) -> list:
    """Cut a list of sentences, in its order, into batches (arrays) as large as allowed.

    `indices` and `num_tokens_vec`, their lengths in tokens, are (N,), int64; `max_tokens` counts
    padding; limits of 0 or less are none. A batch has fewer sentences than `bsz_mult`, or a
    multiple of it, except for the last one and those that would be too large otherwise.
    """
    if len(indices) == 0:
        return []
    assert max_tokens <= 0 or num_tokens_vec.max() <= max_tokens, (
        f"Sentences lengths should not exceed max_tokens={max_tokens}"
    )
    most_tokens = max_tokens if max_tokens > 0 else sys.maxsize
    most_sentences = max_sentences if max_sentences > 0 else sys.maxsize
    # The current batch is [start, ends[-1]), and its longest sentence has `longest` tokens. Behind
    # it is a tail, [ends[-1], end), of sentences that wait until their number is allowed.
    ends = [0]
    start = longest = tail_longest = 0
    for end, tokens in enumerate(num_tokens_vec.tolist(), 1):
        if tokens > tail_longest:
            tail_longest = tokens
        longest_of_both = tail_longest if tail_longest > longest else longest
        size = end - start
        if size > most_sentences or size * longest_of_both > most_tokens:
            # The tail becomes a batch of its own; if it is too large, without this sentence.
            if tail_longest * (end - ends[-1]) > most_tokens:
                ends.append(end - 1)
                tail_longest = tokens
            start = ends[-1]
            ends.append(end)
            longest, tail_longest = tail_longest, 0
        elif size < bsz_mult or size % bsz_mult == 0:
            ends[-1] = end
            longest, tail_longest = longest_of_both, 0
    if ends[-1] == len(indices):
        ends.pop()
    return np.split(indices, ends)


def batch_by_size_fn(indices, num_tokens_fn: Callable[[int], int], *limits: int) -> list:
    """Do the same as `batch_by_size_vec`, with a function that gives a sentence's length."""
    lengths = np.fromiter(map(num_tokens_fn, indices.tolist()), np.int64, len(indices))
    return batch_by_size_vec(indices, lengths, *limits)


batch_fixed_shapes_fast = None  # only TPUs need it


def _get_slice_indices_fast(sizes, break_mode: str, block_size: int, document_sep_len: int):
    """Where each block of a text starts and ends, (blocks, 2), as ``--sample-break-mode`` says.

    "none" cuts every `block_size` tokens, "complete" after whole sentences, "complete_doc" also
    after a sentence of `document_sep_len` tokens, "eos" after each sentence of the lengths `sizes`.
    """
    if break_mode == "none":
        starts = np.arange(0, sizes.sum(), block_size)
        return np.stack([starts, np.minimum(starts + block_size, sizes.sum())], axis=1)
    if break_mode == "eos":
        ends = sizes.cumsum()
        return np.stack([ends - sizes, ends], axis=1)
    by_document = break_mode == "complete_doc"
    shortest = 2 if by_document else 1
    blocks = []
    start = length = 0
    for size in [*sizes.tolist(), None]:
        ends_document = size is None or (by_document and size == document_sep_len)
        if ends_document or (length and length + size > block_size):
            if length >= shortest:
                blocks.append((start, start + length))
            start, length = start + length, 0
        if size is None:
            break
        if ends_document:
            start += size
        else:
            length += size
    return np.array(blocks, dtype=np.int64).reshape(-1, 2)


def _get_block_to_dataset_index_fast(sizes: np.ndarray, slice_indices: np.ndarray) -> np.ndarray:
    """Each block's first sentence, the token in it where it starts, its last one: (blocks, 3)."""
    starts = np.concatenate([[0], sizes.cumsum()])

    def sentence_of(tokens: np.ndarray) -> np.ndarray:
        # Of sentences that start at the same token, since some are empty, the first one.
        places = np.searchsorted(starts, tokens, side="left")
        return places - (starts[places] != tokens)

    begin, end = slice_indices.T
    first = sentence_of(begin)
    last = np.where(end <= begin, first, sentence_of(np.maximum(end - 1, 0)))
    return np.stack([first, begin - starts[first], last], axis=1)
