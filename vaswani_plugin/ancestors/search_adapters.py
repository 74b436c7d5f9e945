"""The recurrent and one-layer models as a search takes them; see `search/models.py`.

A recurrent model's step reads one token; the one-layer model's reads the whole text again.

Axes: B sentences or texts, W beams, R = B W rows, S source length, T tokens, D width, V types.
"""

import sys
from typing import Any

import torch
from torch import Tensor

from vaswani_plugin.ancestors import recurrent
from vaswani_plugin.ancestors.recurrent_language_model import RecurrentLanguageModel
from vaswani_plugin.errors import UserError
from vaswani_plugin.search import models
from vaswani_plugin.search.models import Beams, RowBeams, Sources
from vaswani_plugin.search.text_model import TextModel


class RecurrentSearched(models.EncoderDecoderModel):
    """A recurrent encoder-decoder for searches, in evaluation mode."""

    def __init__(self, model: recurrent.RecurrentEncoderDecoder) -> None:
        super().__init__(model, model.longest)

    def attention(self, source: Tensor, target: Tensor) -> dict[str, Tensor]:
        """See `TransformerModel`: of one layer and head; a `UserError` where there is none."""
        weights = self.model.decode(target, self.model.encode(source)).weights  # (1, T, S)
        if weights is None:
            raise UserError("this model has no attention to show: its decoder has none")
        return {"cross": weights[None]}

    def prepare(self) -> tuple[models.Start, bool]:
        def start(sources: Sources, beam: int, with_attention: bool) -> Beams:
            return TargetBeams(self.decoder, self.encode(sources))

        return start, False

    def encode(self, sources: Sources) -> recurrent.RecurrentMemory:
        """Encode a batch, whose lengths the host knows."""
        return self.model.encode(sources.tokens, torch.as_tensor(sources.lengths, device="cpu"))


class TargetBeams(RowBeams):
    """`Beams` for a recurrent encoder-decoder."""

    def __init__(self, decoder: recurrent.TargetReader, memory: recurrent.RecurrentMemory) -> None:
        self.decoder, self.memory, self.project = decoder, memory, decoder.project
        self.output: Any = None  # a `RecurrentOutput`

    def step(self, tokens: Tensor, parents: Tensor | None) -> Tensor | None:
        self.follow(tokens, parents)
        fed, _, state = self.output or (None, None, None)
        self.output = self.decoder.read(tokens.reshape(-1, 1), self.memory, state, fed)
        self.features = self.output.features[:, 0]
        weights = self.output.weights  # (R, 1, S)
        return None if weights is None else weights[:, 0].unflatten(0, (-1, self.beams))

    def select_rows(self, rows: Tensor) -> None:
        features, _, (h, c) = self.output
        state = h[:, rows], c[:, rows]
        self.memory = self.memory.select(rows)
        self.output = self.output._replace(features=features[rows], weights=None, state=state)


class OneLayerTexts(TextModel):
    """The one-layer language model for searches and scores, in evaluation mode."""

    def features(self, texts: Tensor) -> Tensor:
        return self.decoder(texts)


class RecurrentTexts(TextModel):
    """The recurrent language model for searches and scores, in evaluation mode."""

    def longest(self) -> int:
        return sys.maxsize  # there are no positions

    def features(self, texts: Tensor) -> Tensor:
        return self.decoder.read(texts)[0]

    def go_on(self, prompts: Sources, lengths: Tensor) -> Beams:
        return RecurrentTextBeams(self.decoder, prompts, lengths)


class RecurrentTextBeams(RowBeams):
    """`Beams` for the recurrent language model. The first step takes the prompts' last tokens."""

    def __init__(self, model: RecurrentLanguageModel, prompts: Sources, lengths: Tensor) -> None:
        self.model, self.project = model, model.project
        # PyTorch packs texts by lengths on the CPU.
        on_host = torch.as_tensor(prompts.lengths, device="cpu")
        features, self.states = model.read(prompts.tokens, None, on_host)
        self.features = features[torch.arange(len(features), device=lengths.device), lengths - 1]

    def step(self, tokens: Tensor, parents: Tensor | None) -> None:
        self.follow(tokens, parents)
        if parents is not None:
            features, self.states = self.model.read(tokens.reshape(-1, 1), self.states)
            self.features = features[:, 0]

    def select_rows(self, rows: Tensor) -> None:
        self.states = [(h[rows], c[rows]) for h, c in self.states]
