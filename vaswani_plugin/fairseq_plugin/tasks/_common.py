"""What our tasks have in common: known lengths, dictionaries that a checkpoint remembers, --amp.

Axes: B sentences, N training pairs.
"""

from typing import Any

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, data_utils
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.tasks import FairseqTask

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.checkpoints import DIGESTS, refuse_other_dictionaries
from vaswani_plugin.processor import runs_on_host
from vaswani_plugin.text.dictionary import digest_of

TOLERANCE = 0.005


class KnownLengths(BaseWrapperDataset):
    """fairseq's pairs; a batch also has `known_lengths` (B,): the sources', in host memory."""

    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset)
        self.src, self.tgt = dataset.src, dataset.tgt  # whose text --replace-unk reads

    def collater(self, samples: list[dict], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """fairseq's batch, and the lengths."""
        batch = self.dataset.collater(samples, *args, **kwargs)
        if batch:
            # a copy: a data-loader worker moves the tensor's memory as it sends the batch
            batch["known_lengths"] = batch["net_input"]["src_lengths"].numpy().copy()
        return batch


def indices_in_training(pairs: KnownLengths, max_positions: tuple[int, int] | None) -> np.ndarray:
    """Numbers of the pairs, (N,), in their order, without those too long for the model."""
    with data_utils.numpy_seed(0):
        indices = pairs.ordered_indices()
    if max_positions is not None:
        indices, _ = pairs.filter_indices_by_size(indices, max_positions)
    return indices


def tokens_of_batches(pairs: KnownLengths, indices: np.ndarray, batches: int) -> np.ndarray:
    """Real tokens of an average batch, of source and target, if pairs make `batches` batches."""
    sides = (pairs.dataset.src_sizes, pairs.dataset.tgt_sizes)
    return np.array([sizes[indices].sum() / batches for sizes in sides])


def fitting_max_tokens(
    pairs: KnownLengths, indices: np.ndarray, most: int | None, wanted: int, multiple: int
) -> int:
    """The --max-tokens, at most `most`, with which a batch holds on average `wanted` real tokens.

    It limits the longer side, padding included; `wanted` is the mean of both. The `indices` (N,)
    of pairs are in the order of the batches; `multiple` is --required-batch-size-multiple.
    """
    if most is None:
        raise UserError(f"--real-tokens {wanted} lowers --max-tokens: give that, too")
    sizes = np.maximum(pairs.dataset.src_sizes, pairs.dataset.tgt_sizes).astype(np.int64)
    longest = int(sizes[indices].max())

    def measured(limit: int) -> float:
        batches = pairs.batch_by_size(indices, limit, required_batch_size_multiple=multiple)
        return tokens_of_batches(pairs, indices, len(batches)).mean()

    limit, tokens = most, measured(most)
    if tokens < wanted * (1 - TOLERANCE):
        raise UserError(
            f"--real-tokens {wanted}: batches of --max-tokens {most} hold {tokens:.0f}; raise it"
        )
    tried = {limit: tokens}
    while abs(tokens / wanted - 1) > TOLERANCE and len(tried) < 8:
        limit = min(most, max(longest, round(limit * wanted / tokens)))
        if limit in tried:
            break
        tokens = tried[limit] = measured(limit)
    return min(tried, key=lambda limit: abs(tried[limit] - wanted))


class DictionaryDigests(FairseqTask):
    """Keeps digests of a task's dictionaries in its checkpoints; comes before fairseq's class."""

    args: Any
    sides: tuple[str, ...] = ("source", "target")

    def state_dict(self) -> dict[str, Any]:
        """The task's part of a checkpoint: digests of its dictionaries."""
        return {**super().state_dict(), DIGESTS: self._digests()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a checkpoint's state; refuse other dictionaries, even where their sizes agree."""
        # fairseq's older tasks have no cfg.
        flags: Any = self.args if self.cfg is None else self.cfg
        refuse_other_dictionaries(flags.data, state_dict, self._digests())
        super().load_state_dict(state_dict)

    def _digests(self) -> dict[str, str]:
        words = {side: getattr(self, f"{side}_dictionary") for side in self.sides}
        return {side: digest_of(dictionary.symbols) for side, dictionary in words.items()}


class AutocastOnCPU(FairseqTask):
    """Gives a task --amp in bfloat16 on a CPU, where fairseq has none; comes before its class."""

    def train_step(self, sample: dict, model, criterion, optimizer, *args, **kwargs) -> tuple:
        """fairseq's `train_step`: forward, loss and backward of one batch."""
        device = next(model.parameters()).device
        if isinstance(optimizer, AMPOptimizer) and runs_on_host(device):
            plain = criterion

            def criterion(*arguments: Any) -> tuple:
                with torch.autocast("cpu", torch.bfloat16):
                    return plain(*arguments)

        return super().train_step(sample, model, criterion, optimizer, *args, **kwargs)
