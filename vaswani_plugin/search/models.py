"""What a search asks of a model, and how the models of `modules` answer.

A search encodes the sources (`prepare` and `start`), appends a token to every hypothesis (`step`),
reads the next token's logits, and keeps the sentences that go on (`keep`). A Transformer answers by
its own `forward`: with the leaves and the cache of `kernels` where these are proven, or else with
a plain cache. A language model's answers are in `text_model.py`.

Axes: B sentences or texts, W beams, R = B W rows, S source length, T tokens, D d_model, V types.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.model.build import SizedDictionary, has_search_shortcuts, packing
from vaswani_plugin.modules.transformer import Cache, EncoderDecoder, Memory
from vaswani_plugin.processor import runs_on_host


class SearchDictionary(SizedDictionary, Protocol):
    """Symbols by number, as `text.dictionary` and fairseq's own have them."""

    symbols: list[str]
    nspecial: int  # symbols that come first and stand for no text

    def index(self, sym: str) -> int:
        """Number of a symbol; the unknown symbol's number where it is missing."""

    def unk(self) -> int:
        """Number of the unknown symbol."""


class Sources(NamedTuple):
    """A batch of sources, or of prompts."""

    tokens: Tensor  # (B, S), padded on either side; prompts on the right
    lengths: np.ndarray  # (B,), known without looking at the device
    more: dict[str, Any]  # what else a model of fairseq takes; tensors have a row a sentence

    def part(self, share: slice) -> "Sources":
        """Return some of the sentences."""
        more = {k: v[share] if torch.is_tensor(v) else v for k, v in self.more.items()}
        return Sources(self.tokens[share], self.lengths[share], more)


class Beams(Protocol):
    """The hypotheses of one batch in one model.

    A class whose `logits` are already log-probabilities has an attribute `normalized`, True.
    """

    def step(self, tokens: Tensor, parents: Tensor | None) -> Tensor | None:
        """Append tokens (B, W) to the earlier hypotheses `parents` (B, W); None at first.

        Returns the attention to the source, (B, W, S), where there is one.
        """

    def logits(self, sentences: slice) -> Tensor:
        """Return the logits of the next token, (b, W, V), in a new tensor."""

    def keep(self, sentences: Tensor) -> None:
        """Keep these sentences only, (B',)."""


Start = Callable[[Sources, int, bool], Beams]
"""(sources, greatest number of beams, whether attention is wanted) -> hypotheses, none yet."""


class Model(Protocol):
    """A model that can be searched."""

    decoder: Any  # what every step computes
    dictionary: Any  # of the target; None where the model doesn't know it
    longest_target: int  # greatest length of an output, the end of sentence included

    def prepare(self) -> tuple[Start, bool]:
        """Prepare for a batch: how to start it, and whether threads may share it."""


class EncoderDecoderModel(Model):
    """An encoder-decoder of `modules` for searches, in evaluation mode from now on.

    `longest` are source and target in tokens, the ends of sentence included.
    """

    dictionary: Any = None

    def __init__(self, model: Any, longest: tuple[int, int]) -> None:
        self.model, self.decoder = model.eval(), model.decoder
        self.longest_source, self.longest_target = longest


def all_rows(sentences: Tensor, width: int) -> Tensor:
    """Return all rows of some sentences (B',) that have `width` rows each, (B' W,)."""
    return (sentences[:, None] * width + torch.arange(width, device=sentences.device)).flatten()


def chosen_rows(places: Tensor, width: int) -> Tensor:
    """Return rows of each sentence as (B W',), given their places in it (B, W') and W."""
    return (places + torch.arange(len(places), device=places.device)[:, None] * width).flatten()


class RowBeams(ABC):
    """The part of `Beams` that all models share which have a row for each hypothesis."""

    beams = 1  # of the latest step
    features: Tensor  # of the next token, (R, D)
    project: Callable[[Tensor], Tensor]  # (..., D) -> logits (..., V)

    def logits(self, sentences: slice) -> Tensor:
        return self.project(self.features.unflatten(0, (-1, self.beams))[sentences])

    def follow(self, tokens: Tensor, parents: Tensor | None) -> None:
        """Take the rows of the hypotheses that the next tokens continue; see `Beams.step`."""
        if parents is not None:
            self.select_rows(chosen_rows(parents, self.beams))
        self.beams = tokens.size(1)

    def keep(self, sentences: Tensor) -> None:
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
        self.memory, self.history = self.memory.select(rows), self.history.index_select(0, rows)
        self.cache.select(rows)


class TransformerModel(EncoderDecoderModel):
    """A Transformer of `modules` for searches."""

    def __init__(self, model: EncoderDecoder) -> None:
        longest = (stack.positions.max_positions for stack in (model.encoder, model.decoder))
        super().__init__(model, tuple(longest))
        self._packing = packing()

    def prepare(self) -> tuple[Start, bool]:
        packed = self._packing and self._packing.of(self.decoder, final=True)

        def start(sources: Sources, beam: int, with_attention: bool) -> Beams:
            memory = self.encode(sources)
            if packed:
                return packed.start(memory, beam, with_attention)
            return CachedBeams(self.model, memory, with_attention)

        return start, packed is not None

    def encode(self, sources: Sources) -> Memory:
        """Encode a batch; without padding, no attention to it needs a mask."""
        is_padded = bool(sources.lengths.min() < sources.tokens.size(1))
        return self.model.encode(sources.tokens, is_padded)

    def attention(self, source: Tensor, target: Tensor) -> dict[str, Tensor]:
        """Weights of all layers and heads (N, H, T or S, S or T) of a pair (1, S), (1, T)."""
        encoded = self.model.encoder(source, need_weights=True)
        decoded = self.model.decode(target, self.model.encode(source), need_weights=True)
        layers = encoded.self_weights, decoded.self_weights, decoded.cross_weights
        return dict(zip(("encoder", "decoder", "cross"), map(torch.cat, layers), strict=True))


def padded(
    rows: Sequence[Sequence[int]], pad: int, device: torch.device, on_the_left: bool = False
) -> Tensor:
    """Return numbers of tokens as one tensor (B, T), padded on the right or on the left."""
    longest = max(map(len, rows))
    filled = ((row, [pad] * (longest - len(row))) for row in rows)
    whole = [[*padding, *row] if on_the_left else [*row, *padding] for row, padding in filled]
    return torch.tensor(whole, dtype=torch.long, device=device)


class Ensemble:
    """Models that decode together, by the mean of their probabilities and of their attention.

    The temperature divides the logits of every model. Attention that isn't wanted is dropped.
    """

    def __init__(
        self, members: list[Beams], vocabulary: int, temperature: float, with_attention: bool
    ) -> None:
        self.members, self.vocabulary, self.temperature = members, vocabulary, temperature
        self.with_attention, self.in_place = with_attention, has_search_shortcuts()

    def step(self, tokens: Tensor, parents: Tensor | None) -> Tensor | None:
        steps = (member.step(tokens, parents) for member in self.members)
        attentions = [attention for attention in steps if attention is not None]
        if not (attentions and self.with_attention):
            return None
        return sum(attentions[1:], attentions[0]) / len(attentions)

    def keep(self, sentences: Tensor) -> None:
        for member in self.members:
            member.keep(sentences)

    def log_probabilities(self, sentences: slice) -> Tensor:
        """Return log P of the next token, (b, W, V), in a new tensor, float32 or better."""
        columns = [self._log_softmax(member, sentences) for member in self.members]
        if len(columns) == 1:
            return columns[0]
        return torch.stack(columns).logsumexp(dim=0) - math.log(len(columns))

    def _log_softmax(self, member: Beams, sentences: slice) -> Tensor:
        logits = member.logits(sentences)
        if logits.size(-1) != self.vocabulary:
            raise UserError(
                f"the model knows {logits.size(-1)} tokens and the target dictionary "
                f"{self.vocabulary}; give the data folder (its dict.*.txt) that it was trained on"
            )
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        if self.temperature != 1:
            logits /= self.temperature
        elif getattr(member, "normalized", False):
            return logits
        if not self.in_place or not runs_on_host(logits.device):
            return logits.log_softmax(-1)
        # In place: new memory would cost more time than the function itself.
        return torch.ops.aten._log_softmax.out(logits, -1, False, out=logits)
