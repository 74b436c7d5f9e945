"""How recurrent encoder-decoders answer a search.

Axes: R = B W rows, S source length.
"""

import torch
from torch import Tensor

from vaswani_plugin.modules.recurrent import (
    RecurrentMemory,
    RecurrentOutput,
    TargetReader,
)
from vaswani_plugin.search.models import Beams, EncoderDecoderModel, RowBeams, Sources, Start


class RecurrentModel(EncoderDecoderModel):
    """A recurrent encoder-decoder of `modules` for searches, in evaluation mode."""

    def prepare(self) -> tuple[Start, bool]:
        """See `Model`."""

        def start(sources: Sources, beam: int, with_attention: bool) -> Beams:
            lengths = torch.as_tensor(sources.lengths, device="cpu")
            return TargetBeams(self.decoder, self.model.encoder.read(sources.tokens, lengths))

        return start, False


class TargetBeams(RowBeams):
    """`Beams` for a recurrent encoder-decoder: a step reads one token, from the states so far."""

    def __init__(self, decoder: TargetReader, memory: RecurrentMemory) -> None:
        self.decoder, self.memory = decoder, memory
        self.output: RecurrentOutput | None = None

    def step(self, tokens: Tensor, parents: Tensor | None) -> Tensor | None:
        """See `Beams`."""
        self.follow(tokens, parents)
        fed, _, state = self.output or (None, None, None)
        self.output = self.decoder.read(tokens.reshape(-1, 1), self.memory, state, fed)
        weights = self.output.weights  # (R, 1, S)
        return None if weights is None else weights[:, 0].unflatten(0, (-1, self.beams))

    def logits(self, sentences: slice) -> Tensor:
        """See `Beams`."""
        features = self.output.features[:, 0].unflatten(0, (-1, self.beams))
        return self.decoder.project(features[sentences])

    def select_rows(self, rows: Tensor) -> None:
        """See `RowBeams`."""
        features, _, (h, c) = self.output
        self.memory = self.memory.select(rows)
        self.output = RecurrentOutput(features[rows], None, (h[:, rows], c[:, rows]))
