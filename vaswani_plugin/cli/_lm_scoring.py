"""Log-probabilities of a stream of tokens under a language model: static and dynamic.

The stream is cut into windows as fairseq-eval-lm cuts it: each scores the next tokens of the stream
after as many before them as --context-window says, and a window's first input, where the stream
starts, is the end of a line. Only the targets' log-probabilities are kept.

Dynamic evaluation (Krause et al. 2018) goes through the windows in order; each is scored with the
weights that the windows before it left, and only then learned from.

Axes: N tokens of the stream, B windows, T tokens of a window, S scored tokens, D d_model, V rows.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
import torch.nn.functional as F
from fairseq.models import FairseqLanguageModel
from numpy.typing import NDArray
from torch import Tensor

CHUNK_ELEMENTS = 1 << 22
"""Logits formed at a time: 16 MiB in float32."""

Advance = Callable[[int], object]


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
        raise ValueError(
            f"--context-window {context_window} must be at least 0 and less than "
            f"--tokens-per-sample {tokens_per_sample}, which includes it"
        )
    block = tokens_per_sample - context_window
    return [
        Window(max(0, first - context_window), first, min(first + block, length))
        for first in range(0, length, block)
    ]


class Scorer:
    """A model and the stream that it scores.

    Args:
        model: in evaluation mode.
        numbers: the stream, (N,).
        pad: of the dictionary.
        end: of the dictionary, </s>; stands before the stream.
    """

    def __init__(
        self, model: FairseqLanguageModel, numbers: NDArray[np.int64], pad: int, end: int
    ) -> None:
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
                    raise ValueError(
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
        features = self.model(tokens.to(self.device), features_only=True)[0]  # (B, T, D)
        scored = [
            features[row, window.first - window.start : window.stop - window.start]
            for row, window in enumerate(batch)
        ]
        targets = self.targets[batch[0].first : batch[-1].stop].to(self.device)
        return log_probabilities(self.model, torch.cat(scored), targets)


def log_probabilities(model: FairseqLanguageModel, features: Tensor, targets: Tensor) -> Tensor:
    """Each target's log-probability; the logits never exist all at once.

    Args:
        model: whose decoder projects.
        features: (S, D).
        targets: (S,).

    Returns:
        (S,), at least in float32.
    """
    decoder = model.decoder
    adaptive = getattr(decoder, "adaptive_softmax", None)
    rows = max(1, CHUNK_ELEMENTS // len(decoder.dictionary))
    found = []
    for x, gold in zip(features.split(rows), targets.split(rows), strict=True):
        if adaptive is not None:
            log_p = adaptive.get_log_prob(x[None], None)[0]
            found.append(log_p.gather(-1, gold[:, None]).squeeze(-1))
        else:
            logits = decoder.output_layer(x)
            logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
            found.append(-F.cross_entropy(logits, gold, reduction="none"))
    return torch.cat(found)


@contextlib.contextmanager
def kept_weights(model: FairseqLanguageModel) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    """Gives the weights that may learn, and copies; afterwards they are what they were."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    trained = [weight.detach().clone() for weight in weights]
    try:
        yield weights, trained
    finally:
        with torch.no_grad():
            torch._foreach_copy_(weights, trained)
