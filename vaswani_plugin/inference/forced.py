"""log P of given targets, with teacher forcing, by one model or an ensemble.

Axes: B sources, S source length, R pairs, T target length, D d_model, V vocabulary.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.models import load_with_data, longest_of
from vaswani_plugin.modules.recurrent import RecurrentEncoderDecoder
from vaswani_plugin.modules.transformer import EncoderDecoder
from vaswani_plugin.search.models import Dictionary, padded

Encoded = Sequence[int]
Pair = tuple[int, int]
"""(number of a source, place among its targets)."""


class ForcedModel(Protocol):
    """An encoder-decoder that scores given targets."""

    longest: tuple[int, int]
    """Longest source and target in tokens, the ends of sentence included."""

    def token_log_probabilities(
        self, sources: Tensor, rows: Tensor, previous: Tensor, target: Tensor
    ) -> Tensor:
        """log P of each token of the targets.

        Args:
            sources: (B, S), padded on the left.
            rows: the row of `sources` that each target belongs to, (R,).
            previous: the targets shifted right, (R, T), padded on the right.
            target: (R, T), likewise.

        Returns:
            (R, T), natural logarithms; values at padding are undefined.
        """


CHUNK_ELEMENTS = 1 << 22
"""Logits formed at a time: 16 MiB in float32."""


def projected_log_probabilities(
    features: Tensor, targets: Tensor, project: Callable[[Tensor], Tensor], vocabulary: int
) -> Tensor:
    """log P of each target, in chunks, so that the logits are never in memory all at once.

    Args:
        features: outputs of the decoder, (S, D).
        targets: numbers of tokens, (S,).
        project: (s, D) -> logits, or log-probabilities (s, V).
        vocabulary: V.

    Returns:
        Natural logarithms (S,), at least in float32.
    """
    rows = max(1, CHUNK_ELEMENTS // vocabulary)
    found = []
    chunks = zip(torch.split(features, rows), torch.split(targets, rows), strict=True)
    for x, gold in chunks:
        logits = project(x)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        found.append(-F.cross_entropy(logits, gold, reduction="none"))
    return torch.cat(found)


class ForcedEncoderDecoder:
    """`ForcedModel` over an encoder-decoder of `modules`.

    Args:
        model: in evaluation mode.
        longest: source and target; see `ForcedModel`.
    """

    def __init__(
        self, model: EncoderDecoder | RecurrentEncoderDecoder, longest: tuple[int, int]
    ) -> None:
        self.model, self.longest = model, longest

    def token_log_probabilities(
        self, sources: Tensor, rows: Tensor, previous: Tensor, target: Tensor
    ) -> Tensor:
        """See `ForcedModel`."""
        model: Any = self.model
        memory, decoder = model.encode(sources).select(rows), model.decoder
        features = model.decode(previous, memory, right_padded=True).features  # (R, T, D)
        flat, gold = features.flatten(0, 1), target.flatten()
        vocabulary = decoder.projection.weight.size(0)
        log_p = projected_log_probabilities(flat, gold, decoder.project, vocabulary)
        return log_p.view(target.shape)


class LoadedForced(NamedTuple):
    """A model on the CPU and its dictionaries."""

    model: ForcedModel
    source: Dictionary
    target: Dictionary


class ForcedScorer:
    """Scores targets by the mean probability of models over the same dictionaries, token by token.

    Args:
        models: one or more.
        source: dictionary.
        target: dictionary.
        device: that of the models.
    """

    def __init__(
        self,
        models: Sequence[ForcedModel],
        source: Dictionary,
        target: Dictionary,
        device: torch.device,
    ) -> None:
        self.models, self.source, self.target = models, source, target
        self.device = device
        self.longest = tuple(min(model.longest[side] for model in models) for side in (0, 1))

    def encode(self, tokens: Sequence[str], side: int, name: str) -> list[int]:
        """Numbers of a sentence's tokens, with its end.

        Args:
            tokens: subwords.
            side: 0 for a source, 1 for a target.
            name: of the sentence, for errors.

        Raises:
            UserError: a source without tokens, or a sentence that is too long for a model.
        """
        dictionary = self.target if side else self.source
        if not side and not tokens:
            raise UserError(f"{name} is empty")
        if len(tokens) >= self.longest[side]:
            raise UserError(
                f"{name} has {len(tokens) + 1} tokens with its end, and the model takes "
                f"{self.longest[side]}: leave the sentence out, or divide it"
            )
        return [*map(dictionary.index, tokens), dictionary.eos()]

    def score(
        self,
        sources: Sequence[Encoded],
        targets: Sequence[Sequence[Encoded]],
        max_tokens: int,
        done: Callable[[int], object] = lambda count: None,
    ) -> list[list[list[float]]]:
        """log P of every token of every target.

        Args:
            sources: N sentences of `encode`.
            targets: the targets of each source.
            max_tokens: most target tokens of a batch, padding included.
            done: is called after each batch with the number of its targets.

        Returns:
            For each source and each of its targets: log P of the tokens, natural logarithms; the
            end of sentence is last.
        """
        found: list[list[list[float]]] = [[[] for _ in row] for row in targets]
        for batch in batches_of_pairs(sources, targets, max_tokens):
            scores = self._score_batch(sources, targets, batch)
            for (sentence, place), row in zip(batch, scores, strict=True):
                found[sentence][place] = row
            done(len(batch))
        return found

    @torch.no_grad()
    def _score_batch(
        self, sources: Sequence[Encoded], targets: Sequence[Sequence[Encoded]], batch: list[Pair]
    ) -> list[list[float]]:
        numbers = sorted({sentence for sentence, _ in batch})
        places = {number: place for place, number in enumerate(numbers)}
        rows = torch.tensor([places[sentence] for sentence, _ in batch], device=self.device)
        own = [sources[n] for n in numbers]
        read = padded(own, self.source.pad(), self.device, on_the_left=True)
        golds = [targets[sentence][place] for sentence, place in batch]
        target = padded(golds, self.target.pad(), self.device)  # (R, T)
        shifted = [[self.target.eos(), *gold[:-1]] for gold in golds]
        previous = padded(shifted, self.target.pad(), self.device)
        log_p = [
            model.token_log_probabilities(read, rows, previous, target) for model in self.models
        ]
        mean = torch.stack(log_p).logsumexp(dim=0) - math.log(len(log_p))
        return [row[: len(gold)] for row, gold in zip(mean.tolist(), golds, strict=True)]


def load_scorer(paths: Sequence[Path], data: Path, device: torch.device) -> ForcedScorer:
    """Load a model, or an ensemble of models with the same dictionaries.

    Args:
        paths: checkpoints.
        data: the folder of the dictionaries.
        device: where to compute.

    Raises:
        ForeignModel: only fairseq builds a model.
        ValueError: a checkpoint has no encoder-decoder, or was trained with other dictionaries.
        OSError: a file is missing or can't be read.
    """
    found = []
    for path in paths:
        loaded, _ = load_with_data(path, data)
        model = ForcedEncoderDecoder(loaded.model.to(device), longest_of(loaded.sizes))
        found.append(LoadedForced(model, loaded.source, loaded.target))
    return ForcedScorer([each.model for each in found], *found[-1][1:], device)


def batches_of_pairs(
    sources: Sequence[Encoded], targets: Sequence[Sequence[Encoded]], max_tokens: int
) -> Iterator[list[Pair]]:
    """Group pairs into batches of similar source length; pairs of one source are neighbours."""
    batch: list[Pair] = []
    longest = 0
    for sentence in sorted(range(len(sources)), key=lambda i: len(sources[i])):
        lengths = [len(tokens) for tokens in targets[sentence]]
        for place in sorted(range(len(lengths)), key=lengths.__getitem__):
            widest = max(longest, lengths[place])
            if batch and widest * (len(batch) + 1) > max_tokens:
                yield batch
                batch, widest = [], lengths[place]
            batch.append((sentence, place))
            longest = widest
    if batch:
        yield batch
