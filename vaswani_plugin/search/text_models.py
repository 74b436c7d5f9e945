"""How language models answer a search: by the packed step, from their states, or by reading again.

Axes: B texts, W beams, R = B W rows, P prompt length, T tokens so far, D d_model, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from vaswani_plugin.model.build import packing
from vaswani_plugin.modules.one_layer import OneLayerLanguageModel
from vaswani_plugin.modules.recurrent_language_model import RecurrentLanguageModel
from vaswani_plugin.modules.transformer import LanguageModel
from vaswani_plugin.search.models import Beams, RowBeams, Sources, Start
from vaswani_plugin.search.recurrent import RecurrentTextBeams


class TextModel:
    """A language model of `modules` for searches and scores, in evaluation mode.

    Args:
        decoder: the model.
        longest: greatest length of a text, the end of sentence included.
    """

    dictionary = None

    def __init__(
        self, decoder: LanguageModel | OneLayerLanguageModel | RecurrentLanguageModel, longest: int
    ) -> None:
        self.decoder, self.longest_target = decoder.eval(), longest
        self._packing = packing()

    def features(self, texts: Tensor) -> Tensor:
        """Texts (B, T), padded on the right -> features of each next token (B, T, D)."""
        if isinstance(self.decoder, LanguageModel):
            return self.decoder(texts, right_padded=True).features
        if isinstance(self.decoder, RecurrentLanguageModel):
            return self.decoder.read(texts)[0]
        return self.decoder(texts)

    def prepare(self) -> tuple[Start, bool]:
        """See `Model`; prompts are the sources."""
        packed = self._packing and self._packing.of(self.decoder, final=True)

        def start(prompts: Sources, beam: int, with_attention: bool) -> Beams:
            texts = prompts.tokens
            lengths = texts.ne(self.decoder.padding_idx).sum(dim=1)  # no copy to the device
            if packed:
                return packed.go_on(texts, lengths, beam)
            if isinstance(self.decoder, RecurrentLanguageModel):
                return RecurrentTextBeams(self.decoder, prompts, lengths)
            return RereadBeams(self, texts, lengths)

        return start, packed is not None


class RereadBeams(RowBeams):
    """`Beams` for any language model of ours. Every step computes the whole text again."""

    def __init__(self, model: TextModel, prompts: Tensor, lengths: Tensor) -> None:
        self.model, self.project = model, model.decoder.project
        self.text, self.lengths = prompts, lengths  # (R, P + T), (R,)

    def step(self, tokens: Tensor, parents: Tensor | None) -> None:
        """See `Beams`. The first call ignores `tokens`: the prompts' last tokens are used."""
        self.follow(tokens, parents)
        if parents is not None:
            # Texts at the limit are done, but may still be in the batch.
            place = self.lengths.clamp(max=self.model.longest_target - 1)
            if self.text.size(1) < self.model.longest_target:
                self.text = F.pad(self.text, (0, 1), value=self.model.decoder.padding_idx)
            self.text.scatter_(1, place[:, None], tokens.reshape(-1, 1))
            self.lengths = place + 1
        features = self.model.features(self.text)
        self.features = features[
            torch.arange(len(features), device=features.device), self.lengths - 1
        ]

    def select_rows(self, rows: Tensor) -> None:
        """See `RowBeams`."""
        self.text, self.lengths = self.text[rows], self.lengths[rows]
        self.features = self.features[rows]
