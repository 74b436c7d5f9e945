"""How recurrent models answer a search: a step reads one token, from the states so far.

Axes: B sentences or texts, W beams, R = B W rows, S source length.
"""

import torch
from torch import Tensor

from vaswani_plugin.modules.recurrent import RecurrentMemory, RecurrentOutput, TargetReader
from vaswani_plugin.modules.recurrent_language_model import RecurrentLanguageModel
from vaswani_plugin.search.models import Beams, EncoderDecoderModel, RowBeams, Sources, Start


class RecurrentModel(EncoderDecoderModel):
    """A recurrent encoder-decoder of `modules` for searches, in evaluation mode."""

    def prepare(self) -> tuple[Start, bool]:
        """See `models.Model`."""

        def start(sources: Sources, beam: int, with_attention: bool) -> Beams:
            lengths = torch.as_tensor(sources.lengths, device="cpu")
            return TargetBeams(self.decoder, self.model.encoder.read(sources.tokens, lengths))

        return start, False


class TargetBeams(RowBeams):
    """`Beams` for a recurrent encoder-decoder: a step reads one token, from the states so far."""

    def __init__(self, decoder: TargetReader, memory: RecurrentMemory) -> None:
        self.decoder, self.memory, self.project = decoder, memory, decoder.project
        self.output: RecurrentOutput | None = None

    def step(self, tokens: Tensor, parents: Tensor | None) -> Tensor | None:
        """See `Beams`."""
        self.follow(tokens, parents)
        fed, _, state = self.output or (None, None, None)
        self.output = self.decoder.read(tokens.reshape(-1, 1), self.memory, state, fed)
        self.features = self.output.features[:, 0]
        weights = self.output.weights  # (R, 1, S)
        return None if weights is None else weights[:, 0].unflatten(0, (-1, self.beams))

    def select_rows(self, rows: Tensor) -> None:
        """See `RowBeams`."""
        features, _, (h, c) = self.output
        state = h[:, rows], c[:, rows]
        self.memory = self.memory.select(rows)
        self.output = self.output._replace(features=features[rows], weights=None, state=state)


class RecurrentTextBeams(RowBeams):
    """`Beams` for our recurrent language model: a step reads one token, from the states so far."""

    def __init__(self, model: RecurrentLanguageModel, prompts: Sources, lengths: Tensor) -> None:
        self.model, self.project = model, model.project
        # PyTorch packs texts by lengths on the CPU.
        on_host = torch.as_tensor(prompts.lengths, device="cpu")
        features, self.states = model.read(prompts.tokens, None, on_host)
        self.features = features[torch.arange(len(features), device=lengths.device), lengths - 1]

    def step(self, tokens: Tensor, parents: Tensor | None) -> None:
        """See `Beams`. The first call ignores `tokens`: the prompts' last tokens are used."""
        self.follow(tokens, parents)
        if parents is not None:
            features, self.states = self.model.read(tokens.reshape(-1, 1), self.states)
            self.features = features[:, 0]

    def select_rows(self, rows: Tensor) -> None:
        """See `RowBeams`."""
        self.features = self.features[rows]
        self.states = [(h[rows], c[rows]) for h, c in self.states]
