"""Batches of about as many real tokens as the paper's (section 5.1).

--max-tokens limits the tokens of a batch's longer side, padding included. The number of real tokens
in such a batch depends on the corpus, so it is measured.

Axes: N pairs.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from fairseq.data import LanguagePairDataset, data_utils
from fairseq.dataclass import FairseqDataclass

from vaswani_plugin.errors import UserError

TOLERANCE = 0.005
MOST_TRIES = 8


@dataclass
class RealTokensConfig(FairseqDataclass):
    """The flag of the tasks that learn from pairs."""

    real_tokens: int = field(
        default=0,
        metadata={
            "help": "lower --max-tokens until training batches hold on average as many real tokens "
            "a side, source and target averaged, padding left out (the paper: 25,000 an update, so "
            "3125 with 8 batches to an update); 0 leaves --max-tokens as it is"
        },
    )


class BatchTokens(NamedTuple):
    """Average number of real tokens of a batch on each side."""

    source: float
    target: float

    @property
    def mean(self) -> float:
        """The mean of both sides."""
        return (self.source + self.target) / 2


def indices_in_training(
    pairs: LanguagePairDataset, max_positions: tuple[int, int] | None
) -> np.ndarray:
    """Numbers of the pairs, (N,), in their order, without those that fairseq leaves out.

    Args:
        pairs: of the training set.
        max_positions: longest source and target that the model takes, in tokens; None: any.
    """
    with data_utils.numpy_seed(0):
        indices = pairs.ordered_indices()
    if max_positions is not None:
        indices, _ = pairs.filter_indices_by_size(indices, max_positions)
    return indices


def tokens_of_batches(pairs: LanguagePairDataset, indices: np.ndarray, batches: int) -> BatchTokens:
    """Real tokens of an average batch if pairs are divided into `batches` batches.

    Args:
        pairs: of the training set.
        indices: numbers of the pairs, (N,).
        batches: number of batches.
    """
    sides = (sizes[indices].sum() / batches for sizes in (pairs.src_sizes, pairs.tgt_sizes))
    return BatchTokens(*sides)


def fitting_max_tokens(
    pairs: LanguagePairDataset,
    indices: np.ndarray,
    most: int | None,
    wanted: int,
    multiple: int,
    max_sentences: int | None = None,
) -> int:
    """The --max-tokens with which an average batch holds `wanted` real tokens per side.

    Args:
        pairs: of the training set, with targets.
        indices: numbers of the pairs that are trained on, (N,), in the order of the batches.
        most: the given --max-tokens, if it is given; the result is at most this.
        wanted: real tokens of a batch, the mean of source and target.
        multiple: --required-batch-size-multiple.
        max_sentences: --batch-size, if it is given.

    Returns:
        The value in tokens.

    Raises:
        UserError: `most` is not given, batches of `most` hold fewer tokens, or the longest pair
            alone has more.
    """
    if most is None:
        raise UserError(
            f"--real-tokens {wanted} lowers --max-tokens, which is not given: give --max-tokens, or"
            " leave out --real-tokens"
        )
    sizes = np.maximum(pairs.src_sizes, pairs.tgt_sizes).astype(np.int64)
    longest = int(sizes[indices].max())

    def measured(limit: int) -> float:
        batches = data_utils.batch_by_size(
            indices,
            lambda index: sizes[index],
            num_tokens_vec=sizes[indices],
            max_tokens=limit,
            max_sentences=max_sentences,
            required_batch_size_multiple=multiple,
        )
        return tokens_of_batches(pairs, indices, len(batches)).mean

    limit, found = most, measured(most)
    if found < wanted * (1 - TOLERANCE):
        raise _too_few_tokens(wanted, most, max_sentences, found)
    tried = {limit: found}
    if max_sentences is not None:
        # Where the number of sentences is the limit, fewer tokens change nothing. So the search
        # starts with too few tokens, not with too many.
        limit = min(most, max(longest, wanted))
        found = tried[limit] = measured(limit)
    while abs(found / wanted - 1) > TOLERANCE and len(tried) < MOST_TRIES:
        limit = min(most, max(longest, round(limit * wanted / found)))
        if limit in tried:
            break
        found = tried[limit] = measured(limit)
    if limit == longest and found > wanted * (1 + TOLERANCE):
        raise UserError(
            f"--real-tokens {wanted}: the longest training pair has {longest} tokens, and batches"
            f" that can hold it hold {found:.0f} on average; raise --real-tokens, or clean the data"
        )
    return min(tried, key=lambda limit: abs(tried[limit] - wanted))


def _too_few_tokens(wanted: int, most: int, max_sentences: int | None, found: float) -> UserError:
    limits, remedy = f"--max-tokens {most}", "--max-tokens"
    if max_sentences is not None:
        limits += f" and --batch-size {max_sentences}"
        remedy += " or --batch-size"
    return UserError(
        f"--real-tokens {wanted}: batches of {limits} hold {found:.0f}; raise {remedy}"
    )
