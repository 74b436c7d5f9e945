"""Batches made of sentences by a few operations on all of them.

fairseq makes the next batches in a thread of the training process, which for that long has to wait
for Python's lock after each of its own operations.

Axes: B sentences, S source positions, T target positions, N tokens of all sentences.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from fairseq.data import LanguagePairDataset, data_utils, language_pair_dataset
from fairseq.data.indexed_dataset import MMapIndexedDataset
from torch import Tensor

from vaswani_plugin.compat.replacing import is_replaced, replace

KEYS_OF_A_PAIR = {"id", "source", "target"}
CHANGES_OF_A_PAIR = "append_eos_to_target append_bos remove_eos_from_source".split()


def read_all_sentences_at_once() -> None:
    """Defect: the sentences of a batch are read one by one, at some 7 us each.

    fairseq-fixed 0.12.3.1 knows nothing of ``__getitems__``, which PyTorch's loader asks for all of
    them. It remains so for what is no pair of whole sentences from mapped files.
    """
    if hasattr(LanguagePairDataset, "__getitems__"):
        return

    def __getitems__(self: LanguagePairDataset, indices: Sequence[int]) -> list[dict[str, Any]]:
        sides = [self.src] if self.tgt is None else [self.src, self.tgt]
        is_plain = self.align_dataset is None and self.constraints is None
        is_plain &= not any(getattr(self, change) for change in CHANGES_OF_A_PAIR)
        if not is_plain or any(type(side) is not MMapIndexedDataset for side in sides):
            return [self[index] for index in indices]
        source, *targets = (sentences_of(side, indices) for side in sides)
        target = targets[0] if targets else [None] * len(indices)
        return [
            {"id": index, "source": source, "target": target}
            for index, source, target in zip(indices, source, target, strict=True)
        ]

    LanguagePairDataset.__getitems__ = __getitems__


def sentences_of(dataset: MMapIndexedDataset, indices: Sequence[int]) -> Sequence[Tensor]:
    """`dataset[index]` of each of the B indices, parts of one tensor.

    Raises:
        ValueError: the file ends before one of them.
    """
    dtype = np.dtype(dataset._index.dtype)
    everything = np.frombuffer(
        dataset._bin_buffer, dtype, len(dataset._bin_buffer) // dtype.itemsize
    )
    sizes = dataset.sizes[indices].astype(np.int64)  # (B,)
    begins = dataset._index._pointers[indices] // dtype.itemsize
    missing = np.asarray(indices)[begins + sizes > len(everything)]
    if len(missing):
        raise ValueError(
            f"{dataset._path}.bin ends before sentence {missing.min() + 1}, which {dataset._path}"
            ".idx names: it was cut off; binarize the text again"
        )
    offsets = begins - (sizes.cumsum() - sizes)  # of a sentence's place in the file to that here
    tokens = everything[np.arange(sizes.sum()) + offsets.repeat(sizes)]  # (N,)
    return torch.from_numpy(tokens.astype(np.int64)).split(sizes.tolist())


def pad_all_sentences_at_once() -> None:
    """Defect: ``collate_tokens`` of fairseq-fixed 0.12.3.1 copies sentence after sentence."""
    original = data_utils.collate_tokens
    if is_replaced(original):
        return

    def collate_tokens(
        values: Sequence[Tensor],
        pad_idx: int,
        eos_idx: int | None = None,
        left_pad: bool = False,
        move_eos_to_beginning: bool = False,
        pad_to_length: int | None = None,
        pad_to_multiple: int = 1,
        pad_to_bsz: int | None = None,
    ) -> Tensor:
        lengths = torch.tensor([value.numel() for value in values])[:, None]  # (B, 1)
        width = max(int(lengths.max()), pad_to_length or 0)
        width = -(-width // pad_to_multiple) * pad_to_multiple
        padded = values[0].new_full((max(len(values), pad_to_bsz or 0), width), pad_idx)
        tokens = torch.cat(list(values))
        if move_eos_to_beginning:
            tokens = _begun_with_their_ends(tokens, lengths.flatten(), eos_idx)
        start = width - lengths if left_pad else torch.zeros_like(lengths)
        position = torch.arange(width)
        is_token = (start <= position) & (position < start + lengths)  # (B, T)
        padded[: len(values)].masked_scatter_(is_token.to(padded.device), tokens.to(padded.dtype))
        return padded

    replace(data_utils, "collate_tokens", collate_tokens)


def _begun_with_their_ends(tokens: Tensor, lengths: Tensor, eos_idx: int | None) -> Tensor:
    """Each sentence with its last token, or `eos_idx`, moved to its beginning.

    Args:
        tokens: sentences one after the other, (N,).
        lengths: theirs, (B,).
        eos_idx: stands first instead of the last token.
    """
    lengths = lengths[lengths > 0].to(tokens.device)
    ends = lengths.cumsum(0)
    firsts = ends - lengths
    moved = tokens.roll(1)
    moved[firsts] = tokens[ends - 1] if eos_idx is None else eos_idx
    return moved


def count_all_tokens_at_once() -> None:
    """Defect: the tokens of a batch of pairs are counted by three operations on each sentence.

    Together with the padding that takes fairseq-fixed 0.12.3.1 15 ms for 240 pairs. Pairs with
    alignments or constraints are left to it.
    """
    original = language_pair_dataset.collate
    if is_replaced(original):
        return

    def collate(samples: Sequence[dict[str, Any]], *args: Any, **kwargs: Any) -> dict[str, Any]:
        is_plain = bool(samples) and samples[0].keys() <= KEYS_OF_A_PAIR
        return (batch_of_pairs if is_plain else original)(samples, *args, **kwargs)

    replace(language_pair_dataset, "collate", collate)


def batch_of_pairs(
    samples: Sequence[dict[str, Any]],
    pad_idx: int,
    eos_idx: int,
    left_pad_source: bool = True,
    left_pad_target: bool = False,
    input_feeding: bool = True,
    pad_to_length: dict[str, int] | None = None,
    pad_to_multiple: int = 1,
) -> dict[str, Any]:
    """fairseq's `collate` of pairs, or of sources alone, without alignments and constraints.

    Returns:
        `id` (B,), `nsentences`, `ntokens`, `target` (B, T) or None, and in `net_input` `src_tokens`
        (B, S), `src_lengths` (B,) and `prev_output_tokens` (B, T); the longest source first.
    """

    def merge(side: str, left_pad: bool, shift: bool = False) -> Tensor:
        length = None if pad_to_length is None else pad_to_length[side]
        values = [sample[side] for sample in samples]
        flags = left_pad, shift, length, pad_to_multiple
        return data_utils.collate_tokens(values, pad_idx, eos_idx, *flags)

    source = merge("source", left_pad_source)
    lengths, order = source.ne(pad_idx).sum(dim=1).sort(descending=True)
    inputs = {"src_tokens": source.index_select(0, order), "src_lengths": lengths}
    target, count = None, lengths.sum()
    if samples[0].get("target") is not None:
        target = merge("target", left_pad_target).index_select(0, order)
        count = target.ne(pad_idx).sum()
        if input_feeding:
            shifted = merge("target", left_pad_target, True)
            inputs["prev_output_tokens"] = shifted.index_select(0, order)
    ids = np.array([sample["id"] for sample in samples], dtype=np.int64)
    return {
        "id": torch.from_numpy(ids).index_select(0, order),
        "nsentences": len(samples),
        "ntokens": count.item(),
        "net_input": inputs,
        "target": target,
    }
