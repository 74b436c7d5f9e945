"""Scores of texts under a language model: single texts, and a stream, statically or dynamically.

A stream is cut into windows as by fairseq-eval-lm. Each window scores the next tokens of the
stream; the --context-window tokens before them are its context. The first input of the stream is
the end of a line. Only the targets' log-probabilities are kept.

Dynamic evaluation (Krause et al. 2018) goes through the windows in order. Each window is scored
with the current weights; then the weights are updated on that window.

Axes: N tokens of the stream, B texts or windows, T tokens of the longest one, S scored tokens.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.runner import Batches
from vaswani_plugin.inference.search_engine import projected_log_probabilities
from vaswani_plugin.metrics.perplexity import perplexity
from vaswani_plugin.search.models import padded
from vaswani_plugin.search.text_model import TextModel
from vaswani_plugin.text.dictionary import Dictionary

Advance = Callable[[int], object]


@dataclass(frozen=True)
class TextScore:
    """The score of a single text, in natural logarithms.

    Args:
        tokens: of the text, without its end.
        token_scores: log P of each token given the earlier tokens, then of the end.
    """

    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]

    @property
    def score(self) -> float:
        """log P of the text and its end."""
        return math.fsum(self.token_scores)

    @property
    def perplexity(self) -> float:
        """Perplexity per token, the end included."""
        return perplexity(-self.score / len(self.token_scores) / math.log(2))


def log_probabilities(
    model: TextModel, tokens: Tensor, scored: list[slice], targets: Tensor
) -> Tensor:
    """log P of given next tokens, text after text, (S,), natural logarithms.

    The texts (B, T) are shifted right and padded on the right; `scored` are the positions of each
    whose next tokens, `targets` (S,), are scored.
    """
    features, decoder = model.features(tokens), model.decoder
    rows = torch.cat([row[part] for row, part in zip(features, scored, strict=True)])
    size = decoder.embedding.weight.size(0)
    return projected_log_probabilities(rows, targets, decoder.project, size)


@torch.no_grad()
def score_texts(
    model: TextModel, dictionary: Dictionary, texts: Sequence[tuple[str, ...]], batches: Batches
) -> list[TextScore]:
    """Score texts, tokens without an end, each by itself."""
    index, end = dictionary.index, dictionary.eos()
    device = next(model.decoder.parameters()).device

    def answer(batch: list[int], _: int | None) -> list[TextScore]:
        rows = [[*map(index, texts[place]), end] for place in batch]
        shifted = [[end, *row[:-1]] for row in rows]
        tokens = padded(shifted, dictionary.pad(), device)  # (B, T)
        targets = torch.tensor([number for row in rows for number in row], device=device)  # (S,)
        scored = [slice(len(row)) for row in rows]
        rest = iter(log_probabilities(model, tokens, scored, targets).tolist())
        together = (texts[place] for place in batch)
        return [TextScore(text, tuple(islice(rest, len(text) + 1))) for text in together]

    return batches.answers(texts, answer)


@dataclass(frozen=True)
class Span:
    """Tokens `first` to `stop` (exclusive) are scored; `start` to `first` are their context."""

    start: int
    first: int
    stop: int


def windows(length: int, tokens_per_sample: int, context_window: int) -> list[Span]:
    """Cut a stream of tokens as fairseq-eval-lm does; refuse too long a context."""
    if not 0 <= context_window < tokens_per_sample:
        limit = f"below tokens_per_sample {tokens_per_sample}, which includes it"
        raise UserError(f"context_window {context_window} must be at least 0 and {limit}")
    block = tokens_per_sample - context_window
    return [
        Span(max(0, first - context_window), first, min(first + block, length))
        for first in range(0, length, block)
    ]


class StreamScorer:
    """A model and the stream that it scores, numbers (N,); its first input is `end`, </s>."""

    def __init__(self, model: TextModel, numbers: NDArray[np.int64], pad: int, end: int) -> None:
        self.model = model
        self.device = next(model.decoder.parameters()).device
        self.pad = pad
        self.targets = torch.from_numpy(numbers)
        self.inputs = torch.cat([self.targets.new_tensor([end]), self.targets[:-1]])

    def static(
        self, cut: list[Span], batch_tokens: int, advance: Advance = lambda count: None
    ) -> NDArray[np.float64]:
        """log P of every token with fixed weights, natural logarithms, (N,).

        A batch has at most so many tokens; `advance` counts the scored ones.
        """
        scores, rest = np.empty(len(self.targets)), iter(cut)
        together = max(1, batch_tokens // max(window.stop - window.start for window in cut))
        with torch.no_grad():
            while batch := list(islice(rest, together)):
                log_p = self._score(batch)
                scores[batch[0].first : batch[-1].stop] = log_p.double().cpu().numpy()
                advance(log_p.numel())
        return scores

    def dynamic(
        self, cut: list[Span], rate: float, decay: float, advance: Advance = lambda count: None
    ) -> NDArray[np.float64]:
        """log P of every token while the model learns, natural logarithms, (N,).

        After each window, w <- w + decay (w_0 - w) - rate dL/dw. L is the window's mean loss in
        nats per token, w_0 are the trained weights, restored afterwards. Nothing else may use the
        model meanwhile.
        """
        scores = np.empty(len(self.targets))
        weights: list[Tensor] = [w for w in self.model.decoder.parameters() if w.requires_grad]
        trained = [weight.detach().clone() for weight in weights]
        try:
            for window in cut:
                log_p = self._score([window])
                scores[window.first : window.stop] = log_p.detach().double().cpu().numpy()
                if not np.isfinite(scores[window.first : window.stop]).all():
                    where = f"the model fell apart after {window.first:,} of {len(scores):,} tokens"
                    advice = "give a smaller rate or a larger dynamic_decay"
                    raise UserError(f"dynamic_rate {rate:g}: {where}; {advice}")
                gradients = torch.autograd.grad(-log_p.mean(), weights, materialize_grads=True)
                with torch.no_grad():
                    torch._foreach_lerp_(weights, trained, decay)
                    torch._foreach_add_(weights, gradients, alpha=-rate)
                advance(log_p.numel())
        finally:
            with torch.no_grad():
                torch._foreach_copy_(weights, trained)
        return scores

    def _score(self, batch: list[Span]) -> Tensor:
        """(S,): the log-probabilities of consecutive windows, one after the other."""
        length = max(window.stop - window.start for window in batch)
        tokens = self.inputs.new_full((len(batch), length), self.pad)
        for row, window in zip(tokens, batch, strict=True):
            row[: window.stop - window.start] = self.inputs[window.start : window.stop]
        scored = [slice(w.first - w.start, w.stop - w.start) for w in batch]
        targets = self.targets[batch[0].first : batch[-1].stop].to(self.device)
        return log_probabilities(self.model, tokens.to(self.device), scored, targets)
