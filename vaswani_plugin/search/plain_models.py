"""How models answer a search without packed weights: every hypothesis is a row of a batch.

Every sentence has W rows, side by side. A Transformer's step reads one token, from a cache of keys
and values; a recurrent model's, from the states so far. A language model goes on by the packed step
of `kernels` where that is proven; else every step reads the whole text again.

Axes: B sentences or texts, W beams, R = B W rows, S source length, P prompt length, T tokens so
far, D d_model, V vocabulary.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from vaswani_plugin.model.build import packing
from vaswani_plugin.modules.cache import Cache
from vaswani_plugin.modules.one_layer import OneLayerLanguageModel
from vaswani_plugin.modules.recurrent import RecurrentMemory, RecurrentOutput, TargetReader
from vaswani_plugin.modules.recurrent_language_model import RecurrentLanguageModel
from vaswani_plugin.modules.transformer import EncoderDecoder, LanguageModel, Memory
from vaswani_plugin.search.models import (
    Beams,
    EncoderDecoderModel,
    Sources,
    Start,
    all_rows,
    chosen_rows,
)


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


class RecurrentModel(EncoderDecoderModel):
    """A recurrent encoder-decoder of `modules` for searches, in evaluation mode."""

    def prepare(self) -> tuple[Start, bool]:
        """See `models.Model`."""

        def start(sources: Sources, beam: int, with_attention: bool) -> Beams:
            lengths = torch.as_tensor(sources.lengths, device="cpu")
            return TargetBeams(self.decoder, self.model.encoder.read(sources.tokens, lengths))

        return start, False


class TargetBeams(RowBeams):
    """`Beams` for a recurrent encoder-decoder."""

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
        """See `models.Model`; prompts are the sources."""
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


class RecurrentTextBeams(RowBeams):
    """`Beams` for the recurrent language model. The first step takes the prompts' last tokens."""

    def __init__(self, model: RecurrentLanguageModel, prompts: Sources, lengths: Tensor) -> None:
        self.model, self.project = model, model.project
        # PyTorch packs texts by lengths on the CPU.
        on_host = torch.as_tensor(prompts.lengths, device="cpu")
        features, self.states = model.read(prompts.tokens, None, on_host)
        self.features = features[torch.arange(len(features), device=lengths.device), lengths - 1]

    def step(self, tokens: Tensor, parents: Tensor | None) -> None:
        """See `Beams`."""
        self.follow(tokens, parents)
        if parents is not None:
            features, self.states = self.model.read(tokens.reshape(-1, 1), self.states)
            self.features = features[:, 0]

    def select_rows(self, rows: Tensor) -> None:
        """See `RowBeams`."""
        self.states = [(h[rows], c[rows]) for h, c in self.states]


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
