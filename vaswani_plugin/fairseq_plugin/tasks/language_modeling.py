"""Language modeling over fairseq's task: exact evaluation, and loss on a part of each sample."""

from dataclasses import dataclass
from typing import Optional

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, Dictionary
from fairseq.tasks import register_task
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.tasks._common import AutocastOnCPU, DictionaryDigests
from vaswani_plugin.model.configuration import option


class LossAfterDataset(BaseWrapperDataset):
    """A `MonolingualDataset` whose targets up to and including the first `symbol` are padding."""

    def __init__(self, dataset, symbol: str, dictionary: Dictionary) -> None:
        super().__init__(dataset)
        self.symbol, self.pad = dictionary.index(symbol), dictionary.pad()
        if self.symbol == dictionary.unk():
            raise UserError(f"--loss-after {symbol}: the dictionary has no such symbol")
        for number in range(len(dataset)):  # now, not when the batch comes
            if not dataset[number]["target"].eq(self.symbol).any():
                where = f"sentence {number + 1} holds no {symbol}"
                raise UserError(f"{where}; --loss-after needs one a line")

    def collater(self, samples: list[dict]) -> dict:
        """fairseq's batch, with padding in place of the targets up to the symbol.

        `ntokens` counts the remaining targets, and `start_indices` is where they start.
        """
        batch = self.dataset.collater(samples)
        if not batch:
            return batch
        starts = [int(each["target"].eq(self.symbol).nonzero()[0]) + 1 for each in samples]
        target = batch["target"]
        places = torch.arange(target.size(1), device=target.device)
        before = places < torch.tensor(starts, device=target.device)[:, None]
        batch["target"] = target.masked_fill(before, self.pad)
        batch["ntokens"] = int(batch["target"].ne(self.pad).sum())
        batch["start_indices"] = starts  # fairseq's scorer would count padding in front as text
        return batch


@dataclass
class VaswaniLanguageModelingConfig(LanguageModelingConfig):
    """fairseq's language modeling task, and the part of a sample that has a loss."""

    loss_after: Optional[str] = option(  # noqa: UP045 -- fairseq's parser reads no other spelling
        None,
        "learn (and score) only what follows the first SYMBOL of each line, as in 'article SYMBOL "
        "summary'; needs --sample-break-mode eos",
    )


@register_task("vaswani_language_modeling", dataclass=VaswaniLanguageModelingConfig)
class VaswaniLanguageModelingTask(AutocastOnCPU, DictionaryDigests, LanguageModelingTask):
    """fairseq's language modeling task, with an error where fairseq would silently skip text."""

    sides = ("target",)

    @classmethod
    def setup_task(cls, args, **kwargs) -> "VaswaniLanguageModelingTask":
        """Load the dictionary; refuse --loss-after without one line a sample."""
        if args.loss_after is not None and str(args.sample_break_mode) != "eos":
            raise UserError("--loss-after needs one line a sample: give --sample-break-mode eos")
        return super().setup_task(args, **kwargs)

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs) -> None:
        """Load a split; see fairseq's task. A window needs tokens that aren't context."""
        if self.args.tokens_per_sample < 1:  # fairseq-eval-lm has taken the context off
            raise UserError("--context-window must be below --tokens-per-sample")
        super().load_dataset(split, epoch, combine, **kwargs)
        if self.args.loss_after is not None:
            after = self.args.loss_after
            self.datasets[split] = LossAfterDataset(self.datasets[split], after, self.dictionary)

    def eval_lm_dataloader(self, dataset, *, max_positions, context_window, num_workers, **kwargs):
        """All batches of `fairseq-eval-lm`; a `UserError` where fairseq would skip a sample.

        If it skips all, it reports "Perplexity: 1.00".
        """
        if context_window > 0 and self.args.loss_after is not None:  # it would score padding
            raise UserError("--context-window and --loss-after exclude each other; drop one")
        if context_window > 0 and kwargs.get("num_shards", 1) > 1:
            raise UserError("--context-window reads the whole text: drop --num-shards, or GPUs")
        longest = int(np.max(dataset.sizes)) + context_window
        if longest > max_positions:
            length = self.args.tokens_per_sample + context_window
            raise UserError(
                f"a sample of {longest} tokens, more than the model's {max_positions} "
                f"positions, would not be scored: --tokens-per-sample is {length}; give "
                f"{max_positions} or less, with --sample-break-mode none or --shorten-method"
            )
        # several workers or shards would each keep the context of their own batches only
        kwargs["num_workers"] = min(num_workers, 1) if context_window > 0 else num_workers
        kwargs |= {"max_positions": max_positions, "context_window": context_window}
        return super().eval_lm_dataloader(dataset, **kwargs)
