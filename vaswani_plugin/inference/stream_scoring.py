"""Log-probabilities of a stream of tokens under a language model: static and dynamic.

The stream is cut into windows as fairseq-eval-lm cuts it: each scores the next tokens of the stream
after as many before them as --context-window says, and a window's first input, where the stream
starts, is the end of a line. Only the targets' log-probabilities are kept.

Dynamic evaluation (Krause et al. 2018) goes through the windows in order; each is scored with the
weights that the windows before it left, and only then learned from.

Axes: N tokens of the stream, B windows, T tokens of a window, S scored tokens.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vaswani_plugin.errors import UserError

Advance = Callable[[int], object]


class ScoringModel(Protocol):
    """What scoring asks of a language model."""

    def log_probabilities(self, tokens: Tensor, scored: list[slice], targets: Tensor) -> Tensor:
        """The log-probabilities of some next tokens.

        Args:
            tokens: texts shifted right, (B, T), padded on the right.
            scored: the positions of each text whose next tokens are scored.
            targets: those next tokens, one text's after the other, (S,).

        Returns:
            Natural logarithms (S,), at least in float32.
        """

    def parameters(self) -> Iterator[nn.Parameter]:
        """See `torch.nn.Module.parameters`."""


@dataclass(frozen=True)
class Window:
    """Tokens `first` to `stop` (exclusive) of the stream, scored after those from `start` on."""

    start: int
    first: int
    stop: int


def windows(length: int, tokens_per_sample: int, context_window: int) -> list[Window]:
    """Cuts a stream as fairseq-eval-lm does.

    Args:
        length: N.
        tokens_per_sample: T, context included.
        context_window: how many of these are context at most.

    Raises:
        ValueError: the context leaves nothing to score.
    """
    if not 0 <= context_window < tokens_per_sample:
        raise UserError(
            f"--context-window {context_window} must be at least 0 and less than "
            f"--tokens-per-sample {tokens_per_sample}, which includes it"
        )
    block = tokens_per_sample - context_window
    return [
        Window(max(0, first - context_window), first, min(first + block, length))
        for first in range(0, length, block)
    ]


class StreamScorer:
    """A model and the stream that it scores.

    Args:
        model: in evaluation mode.
        numbers: the stream, (N,).
        pad: of the dictionary.
        end: of the dictionary, </s>; stands before the stream.
    """

    def __init__(self, model: ScoringModel, numbers: NDArray[np.int64], pad: int, end: int) -> None:
        self.model = model
        self.device = next(model.parameters()).device
        self.pad = pad
        self.targets = torch.from_numpy(numbers)
        self.inputs = torch.cat([self.targets.new_tensor([end]), self.targets[:-1]])

    def static(
        self, cut: list[Window], batch_tokens: int, advance: Advance = lambda count: None
    ) -> NDArray[np.float64]:
        """Natural logarithms of all tokens' probabilities, (N,).

        Args:
            cut: the windows.
            batch_tokens: most tokens of a batch, padding and context included.
            advance: told how many tokens were scored.
        """
        scores = np.empty(len(self.targets))
        longest = max(window.stop - window.start for window in cut)
        rest = iter(cut)
        with torch.no_grad():
            while batch := list(islice(rest, max(1, batch_tokens // longest))):
                found = self._score(batch)
                scores[batch[0].first : batch[-1].stop] = found.double().cpu().numpy()
                advance(found.numel())
        return scores

    def dynamic(
        self,
        cut: list[Window],
        rate: float,
        decay: float,
        advance: Advance = lambda count: None,
    ) -> NDArray[np.float64]:
        """The same while the model learns; afterwards its weights are what they were.

        Nothing else may use the model meanwhile.

        After a window, with L its mean loss in nats a token and w_0 the trained weights,
        w <- w + decay (w_0 - w) - rate dL/dw: gradient descent with a pull back.

        Raises:
            ValueError: the rate is too large: the model fell apart.
        """
        scores = np.empty(len(self.targets))
        with kept_weights(self.model) as (weights, trained):
            for window in cut:
                found = self._score([window])
                scores[window.first : window.stop] = found.detach().double().cpu().numpy()
                if not np.isfinite(scores[window.first : window.stop]).all():
                    raise UserError(
                        f"--dynamic-rate {rate:g}: the model fell apart after {window.first:,} of "
                        f"{len(scores):,} tokens; give a smaller rate or a larger --dynamic-decay"
                    )
                gradients = torch.autograd.grad(-found.mean(), weights, materialize_grads=True)
                with torch.no_grad():
                    torch._foreach_lerp_(weights, trained, decay)
                    torch._foreach_add_(weights, gradients, alpha=-rate)
                advance(found.numel())
        return scores

    def _score(self, batch: list[Window]) -> Tensor:
        """(S,): the log-probabilities of consecutive windows, one after the other."""
        length = max(window.stop - window.start for window in batch)
        tokens = self.inputs.new_full((len(batch), length), self.pad)
        for row, window in zip(tokens, batch, strict=True):
            row[: window.stop - window.start] = self.inputs[window.start : window.stop]
        scored = [slice(w.first - w.start, w.stop - w.start) for w in batch]
        targets = self.targets[batch[0].first : batch[-1].stop].to(self.device)
        return self.model.log_probabilities(tokens.to(self.device), scored, targets)


@contextlib.contextmanager
def kept_weights(model: ScoringModel) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    """Gives the weights that may learn, and copies; afterwards they are what they were."""
    weights: list[Tensor] = [weight for weight in model.parameters() if weight.requires_grad]
    trained = [weight.detach().clone() for weight in weights]
    try:
        yield weights, trained
    finally:
        with torch.no_grad():
            torch._foreach_copy_(weights, trained)
