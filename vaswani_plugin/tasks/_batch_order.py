"""Which pairs of sentences share a batch: those that are of one length on both sides."""

from dataclasses import dataclass, field

import numpy as np
from fairseq.data import LanguagePairDataset
from fairseq.dataclass import ChoiceEnum, FairseqDataclass


@dataclass
class BatchOrderConfig(FairseqDataclass):
    """The flag of the tasks that learn from pairs."""

    batch_order: ChoiceEnum(["longer-side", "fairseq"]) = field(
        default="longer-side",
        metadata={
            "help": "which pairs share a batch in training: neighbours by the longer side, then by "
            "the other one, up and down in turn (longer-side: the fullest batches), or by the "
            "source, then by the target (fairseq)"
        },
    )


def by_longer_side(source_sizes: np.ndarray, target_sizes: np.ndarray) -> np.ndarray:
    """An order in which neighbours are alike on both sides, and batches cut from it full.

    `--max-tokens` allows so many times the longest side of a batch. Sorted by the source, each of
    its lengths would end with the longest targets, and the next begin with the shortest.

    Args:
        source_sizes: tokens of each pair, (N,).
        target_sizes: the same.

    Returns:
        Numbers of pairs, (N,), by the longer side; among those alike by how much longer the source
        is than the target, growing where the longer side is even and falling where it is odd. Equal
        pairs stay in their order.
    """
    source, target = source_sizes.astype(np.int64), target_sizes.astype(np.int64)
    longer, excess = np.maximum(source, target), source - target
    return np.lexsort((np.where(longer % 2, -excess, excess), longer))


class PairsByLongerSide(LanguagePairDataset):
    """fairseq's pairs of sentences, in batches that are full."""

    def ordered_indices(self) -> np.ndarray:
        """See `by_longer_side`; equal pairs are shuffled where fairseq would shuffle them."""
        indices = super().ordered_indices()
        if self.buckets is not None or self.tgt_sizes is None:
            return indices
        return indices[by_longer_side(self.src_sizes[indices], self.tgt_sizes[indices])]
