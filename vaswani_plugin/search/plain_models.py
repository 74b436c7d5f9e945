"""How models answer a search without packed weights: every hypothesis is a row of a batch.

Every sentence has W rows, side by side. A Transformer's step reads one token, from a cache of keys
and values. A language model goes on by the packed step of `kernels` where that is proven; else
every step reads the whole text again.

Axes: B sentences or texts, W beams, R = B W rows, S source length, P prompt length, T tokens so
far, D d_model, V vocabulary.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vaswani_plugin.model.build import packing
from vaswani_plugin.modules.cache import Cache
from vaswani_plugin.modules.transformer import EncoderDecoder, Memory
from vaswani_plugin.search.models import Beams, Sources, Start, all_rows, chosen_rows


class RowBeams(ABC):
    """The part of `Beams` that all models share which have a row for each hypothesis."""

    beams = 1  # of the latest step
    features: Tensor  # of the next token, (R, D)
    project: Callable[[Tensor], Tensor]  # (..., D) -> logits (..., V)

    def logits(self, sentences: slice) -> Tensor:
        """See `Beams`."""
        return self.project(self.features.unflatten(0, (-1, self.beams))[sentences])

    def follow(self, tokens: Tensor, parents: Tensor | None) -> None:
        """Take the rows of the hypotheses that the next tokens continue; see `Beams.step`."""
        if parents is not None:
            self.select_rows(chosen_rows(parents, self.beams))
        self.beams = tokens.size(1)

    def keep(self, sentences: Tensor) -> None:
        """See `Beams`."""
        self.select_rows(all_rows(sentences, self.beams))

    @abstractmethod
    def select_rows(self, rows: Tensor) -> None:
        """Replace the rows (R,) of all tensors by the rows of these numbers, (R',)."""


class CachedBeams(RowBeams):
    """`Beams` by the decoder's own `forward`, which caches keys and values."""

    def __init__(self, model: EncoderDecoder, memory: Memory, with_attention: bool) -> None:
        self.model, self.memory, self.project = model, memory, model.decoder.project
        self.layer = len(model.decoder.layers) - 1 if with_attention else None
        self.cache = Cache()
        self.history = memory.features.new_empty(len(memory.features), 0, dtype=torch.long)

    def step(self, tokens: Tensor, parents: Tensor | None) -> Tensor | None:
        """See `Beams`; the attention is that of the last layer, the mean of its heads."""
        self.follow(tokens, parents)
        self.history = torch.cat((self.history, tokens.reshape(-1, 1)), dim=1)  # (R, T)
        output = self.model.decode(
            self.history, self.memory, self.cache, right_padded=True, alignment_layer=self.layer
        )
        self.features = output.features[:, -1]  # (R, D)
        if self.layer is None:
            return None
        return output.cross_weights[0].mean(dim=1)[:, -1].unflatten(0, (-1, self.beams))

    def select_rows(self, rows: Tensor) -> None:
        """See `RowBeams`."""
        self.memory, self.history = self.memory.select(rows), self.history.index_select(0, rows)
        self.cache.select(rows)


class TextModel:
    """A language model of `modules` for searches and scores, in evaluation mode."""

    dictionary = None

    def __init__(self, decoder: Any) -> None:
        self.decoder = decoder.eval()
        self.longest_target = self.longest()
        self._packing = packing()

    def longest(self) -> int:
        """Greatest length of a text, the end of sentence included."""
        return self.decoder.positions.max_positions

    def features(self, texts: Tensor) -> Tensor:
        """Texts (B, T), padded on the right -> features of each next token (B, T, D)."""
        return self.decoder(texts, right_padded=True).features

    def prepare(self) -> tuple[Start, bool]:
        """See `models.Model`; prompts are the sources."""
        packed = self._packing and self._packing.of(self.decoder, final=True)

        def start(prompts: Sources, beam: int, with_attention: bool) -> Beams:
            lengths = prompts.tokens.ne(self.decoder.padding_idx).sum(dim=1)  # not to the device
            if packed:
                return packed.go_on(prompts.tokens, lengths, beam)
            return self.go_on(prompts, lengths)

        return start, packed is not None

    def go_on(self, prompts: Sources, lengths: Tensor) -> Beams:
        """Begin with prompts, whose lengths (B,) are on the device, by a `forward` at each step."""
        return RereadBeams(self, prompts.tokens, lengths)


class RereadBeams(RowBeams):
    """`Beams` for any language model. The first step takes the prompts' last tokens."""

    def __init__(self, model: TextModel, prompts: Tensor, lengths: Tensor) -> None:
        self.model, self.project = model, model.decoder.project
        self.text, self.lengths = prompts, lengths  # (R, P + T), (R,)

    def step(self, tokens: Tensor, parents: Tensor | None) -> None:
        """See `Beams`."""
        self.follow(tokens, parents)
        if parents is not None:
            # Texts at the limit are done, but may still be in the batch.
            place = self.lengths.clamp(max=self.model.longest_target - 1)
            if self.text.size(1) < self.model.longest_target:
                self.text = F.pad(self.text, (0, 1), value=self.model.decoder.padding_idx)
            self.text.scatter_(1, place[:, None], tokens.reshape(-1, 1))
            self.lengths = place + 1
        rows = torch.arange(len(self.text), device=self.text.device)
        self.features = self.model.features(self.text)[rows, self.lengths - 1]

    def select_rows(self, rows: Tensor) -> None:
        """See `RowBeams`."""
        self.text, self.lengths = self.text[rows], self.lengths[rows]
