"""Samples with a loss only on the part after a symbol: `article <sep> summary`."""

import torch
from fairseq.data import BaseWrapperDataset, Dictionary
from torch import Tensor

from vaswani_plugin.errors import UserError


class LossAfterDataset(BaseWrapperDataset):
    """A `MonolingualDataset` whose targets up to and including the first `symbol` are padding.

    Args:
        dataset: one sentence a sample.
        symbol: number of the token.
        dictionary: names the padding and the symbol.
    """

    def __init__(self, dataset, symbol: int, dictionary: Dictionary) -> None:
        super().__init__(dataset)
        self.symbol = symbol
        self.name = dictionary[symbol]
        self.pad = dictionary.pad()

    def collater(self, samples: list[dict]) -> dict:
        """fairseq's batch, with padding in place of the targets up to the symbol.

        `ntokens` counts the remaining targets, and `start_indices` is where they start.

        Args:
            samples: of the wrapped dataset, with `target` (T,).

        Raises:
            UserError: when a sample lacks the symbol.
        """
        batch = self.dataset.collater(samples)
        if not batch:
            return batch
        starts = [self._start(sample) for sample in samples]
        target = batch["target"]
        places = torch.arange(target.size(1), device=target.device)
        before = places < torch.tensor(starts, device=target.device)[:, None]
        batch["target"] = target.masked_fill(before, self.pad)
        batch["ntokens"] = int(batch["target"].ne(self.pad).sum())
        batch["start_indices"] = starts  # fairseq's scorer would count padding in front as text
        return batch

    def _start(self, sample: dict[str, int | Tensor]) -> int:
        places = sample["target"].eq(self.symbol).nonzero()
        if not len(places):
            raise UserError(
                f"sentence {sample['id'] + 1} holds no {self.name}, after which --loss-after "
                f"begins to learn; give every line one"
            )
        return int(places[0]) + 1
