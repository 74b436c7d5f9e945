"""Pairs of sentences: read and padded a batch at a time, and how full their batches are.

fairseq prepares batches in a thread of the training process, and training waits for Python's global
lock while that thread holds it. A few operations on a whole batch take a tenth of the time of
fairseq's operations on single sentences.

Axes: B sentences, S source positions, T target positions, N tokens of all sentences.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from fairseq.data import LanguagePairDataset, data_utils
from fairseq.data.indexed_dataset import MMapIndexedDataset
from torch import Tensor

from vaswani_plugin.errors import UserError

TOLERANCE = 0.005
MOST_TRIES = 8


class SentencePairs(LanguagePairDataset):
    """fairseq's pairs of whole sentences, read and padded a batch at a time.

    Args:
        pairs: fairseq's pairs, without alignments, constraints and buckets of lengths.
    """

    def __init__(self, pairs: LanguagePairDataset) -> None:
        super().__init__(
            pairs.src,
            pairs.src_sizes,
            pairs.src_dict,
            pairs.tgt,
            pairs.tgt_sizes,
            pairs.tgt_dict,
            left_pad_source=pairs.left_pad_source,
            left_pad_target=pairs.left_pad_target,
            shuffle=pairs.shuffle,
            input_feeding=pairs.input_feeding,
            eos=pairs.eos,
            pad_to_multiple=pairs.pad_to_multiple,
        )

    @staticmethod
    def can_hold(pairs: LanguagePairDataset) -> bool:
        """Whether `pairs` are pairs of sentences and nothing else."""
        others = pairs.align_dataset, pairs.constraints, pairs.buckets
        return type(pairs) is LanguagePairDataset and all(other is None for other in others)

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """The pairs of a batch; PyTorch's loader prefers this method to `__getitem__`.

        Raises:
            UserError: a data file ends before one of the sentences.
        """
        sides = [self.src] if self.tgt is None else [self.src, self.tgt]
        if not all(type(side) is MMapIndexedDataset for side in sides):
            return [self[index] for index in indices]
        source, *targets = (sentences_of(side, indices) for side in sides)
        target = targets[0] if targets else [None] * len(indices)
        return [
            {"id": index, "source": source, "target": target}
            for index, source, target in zip(indices, source, target, strict=True)
        ]

    def collater(
        self, samples: Sequence[dict[str, Any]], pad_to_length: dict[str, int] | None = None
    ) -> dict[str, Any]:
        """A batch of pairs, or of sources alone.

        Args:
            samples: `id`, `source` (S,) and `target` (T,) or None.
            pad_to_length: smallest S under `source`, smallest T under `target`.

        Returns:
            `id` (B,), `nsentences`, `ntokens`, `target` (B, T) or None, and in `net_input`
            `src_tokens` (B, S), `src_lengths` (B,) and `prev_output_tokens` (B, T); the longest
            source first. `known_lengths` (B,) is a NumPy array of the sources' lengths, which
            stays on the host when the batch is moved to a device. An empty dictionary without
            samples.
        """
        if not samples:
            return {}
        pad, longest = self.src_dict.pad(), pad_to_length or {}
        source = self._padded([sample["source"] for sample in samples], "source", longest)
        lengths, order = source.ne(pad).sum(dim=1).sort(descending=True)
        inputs = {"src_tokens": source.index_select(0, order), "src_lengths": lengths}
        target, count = None, lengths.sum()
        targets = [sample["target"] for sample in samples]
        if targets[0] is not None:
            target = self._padded(targets, "target", longest).index_select(0, order)
            count = target.ne(pad).sum()
            if self.input_feeding:
                previous = self._padded(shifted(targets, self.eos), "target", longest)
                inputs["prev_output_tokens"] = previous.index_select(0, order)
        ids = np.array([sample["id"] for sample in samples], dtype=np.int64)
        return {
            "id": torch.from_numpy(ids).index_select(0, order),
            "nsentences": len(samples),
            "ntokens": count.item(),
            "known_lengths": lengths.numpy(),
            "net_input": inputs,
            "target": target,
        }

    def _padded(
        self, sentences: Sequence[Tensor], side: str, longest: dict[str, int]
    ) -> Tensor:  # (B, S) or (B, T)
        left_pad = self.left_pad_source if side == "source" else self.left_pad_target
        pad, length = self.src_dict.pad(), longest.get(side, 0)
        return padded(sentences, pad, left_pad, length, self.pad_to_multiple)


def sentences_of(dataset: MMapIndexedDataset, indices: Sequence[int]) -> Sequence[Tensor]:
    """`dataset[index]` for each of the B indices, as views of one tensor."""
    dtype = np.dtype(dataset._index.dtype)
    everything = np.frombuffer(
        dataset._bin_buffer, dtype, len(dataset._bin_buffer) // dtype.itemsize
    )
    sizes = dataset.sizes[indices].astype(np.int64)  # (B,)
    begins = dataset._index._pointers[indices] // dtype.itemsize
    missing = np.asarray(indices)[begins + sizes > len(everything)]
    if len(missing):
        raise UserError(
            f"{dataset._path}.bin ends before sentence {missing.min() + 1}, which {dataset._path}"
            ".idx names: it was cut off; binarize the text again"
        )
    offsets = begins - (sizes.cumsum() - sizes)  # place in the file minus place in `tokens`
    tokens = everything[np.arange(sizes.sum()) + offsets.repeat(sizes)]  # (N,)
    return torch.from_numpy(tokens.astype(np.int64)).split(sizes.tolist())


def padded(
    sentences: Sequence[Tensor], pad: int, left_pad: bool, length: int, multiple: int
) -> Tensor:
    """Sentences (T_i,) as rows (B, T); T is at least `length` and a multiple of `multiple`."""
    lengths = lengths_of(sentences)[:, None]  # (B, 1)
    width = max(int(lengths.max()), length)
    width = -(-width // multiple) * multiple
    batch = sentences[0].new_full((len(sentences), width), pad)
    start = width - lengths if left_pad else torch.zeros_like(lengths)
    position = torch.arange(width, device="cpu")
    is_token = (start <= position) & (position < start + lengths)  # (B, T)
    return batch.masked_scatter_(is_token, torch.cat(list(sentences)))


def shifted(sentences: Sequence[Tensor], eos: int) -> Sequence[Tensor]:
    """Each sentence without its last token and with `eos` in front: the decoder's input."""
    lengths = lengths_of(sentences)
    tokens = torch.cat(list(sentences)).roll(1)  # (N,)
    firsts = (lengths.cumsum(0) - lengths)[lengths > 0]
    tokens[firsts] = eos
    return tokens.split(lengths.tolist())


def lengths_of(sentences: Sequence[Tensor]) -> Tensor:
    """The number of tokens of each sentence, (B,), on the CPU, where batches are made."""
    return torch.tensor([sentence.numel() for sentence in sentences], device="cpu")


# --- real tokens: --max-tokens limits the longer side, padding included ---


def indices_in_training(
    pairs: LanguagePairDataset, max_positions: tuple[int, int] | None
) -> np.ndarray:
    """Numbers of the pairs, (N,), in their order, without those too long for the model."""
    with data_utils.numpy_seed(0):
        indices = pairs.ordered_indices()
    if max_positions is not None:
        indices, _ = pairs.filter_indices_by_size(indices, max_positions)
    return indices


def tokens_of_batches(
    pairs: LanguagePairDataset, indices: np.ndarray, batches: int
) -> tuple[float, float]:
    """Real tokens of an average batch, of source and target, if pairs make `batches` batches."""
    source, target = (
        sizes[indices].sum() / batches for sizes in (pairs.src_sizes, pairs.tgt_sizes)
    )
    return source, target


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
        return sum(tokens_of_batches(pairs, indices, len(batches))) / 2

    limit, found = most, measured(most)
    if found < wanted * (1 - TOLERANCE):
        limits = f"--max-tokens {most}" + (
            f" and --batch-size {max_sentences}" * bool(max_sentences)
        )
        raise UserError(
            f"--real-tokens {wanted}: batches of {limits} hold {found:.0f}; raise the limit"
        )
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
