"""How a language model of `modules` answers a search, and scores; see `models.py`.

It goes on by the packed step of `kernels` where proven; else every step reads all the text.

Axes: B texts, W beams, R = B W rows, P prompt length, T tokens so far, D d_model.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vaswani_plugin.model.build import packing
from vaswani_plugin.search.models import Beams, RowBeams, Sources, Start


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
        """See `Model`; prompts are the sources."""
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
        self.text, self.lengths = self.text[rows], self.lengths[rows]
