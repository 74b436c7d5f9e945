"""Constraints on the next token: functions that set log-probabilities to -inf, in place.

Axes: B sentences, b some of them, W beams, V vocabulary, T tokens so far.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

Constraint = Callable[[Tensor, "Step"], None]
"""Changes log-probabilities (b, W, V) of a step in place."""


class Step(NamedTuple):
    """One step of the search, for some of its sentences.

    Attributes:
        number: tokens of every unfinished hypothesis.
        sentences: numbers of the sentences in the original batch, (b,).
        history: the tokens so far, (b, W, T), without the start.
        part: rows of these sentences among all unfinished sentences.
    """

    number: int
    sentences: Tensor
    history: Tensor
    part: slice = slice(None)


class Tracker(Protocol):
    """A constraint with a state for each hypothesis, so that it needs no history.

    The search calls it at every step as it calls the models (`Beams`). `keep` of a shallow copy
    leaves the original unchanged, because it assigns new tensors.
    """

    def advance(self, tokens: Tensor, parents: Tensor | None) -> None:
        """Append tokens (B, W) to the earlier hypotheses `parents` (B, W); None at first."""

    def __call__(self, log_probabilities: Tensor, step: Step) -> None:
        """See `Constraint`."""

    def keep(self, sentences: Tensor) -> None:
        """Keep these sentences only, (B',)."""


StartTracking = Callable[[Tensor, list[int]], Tracker]
"""(source tokens (B, S), greatest number of tokens before the end of each sentence) -> tracker."""


def forbid(log_probabilities: Tensor, token: int) -> None:
    """Forbid a token everywhere."""
    log_probabilities.select(-1, token).fill_(-math.inf)


def force_end(log_probabilities: Tensor, ending: Tensor, eos: int) -> None:
    """Forbid all but the end of sentence where `ending`, boolean (b,), is True."""
    end = log_probabilities[..., eos].clone()
    log_probabilities.masked_fill_(ending[:, None, None], -math.inf)
    log_probabilities[..., eos] = end


def force_token(log_probabilities: Tensor, tokens: Tensor, nothing: int) -> None:
    """Forbid all but `tokens` (b,); a sentence whose token is `nothing` stays free."""
    place = tokens[:, None, None].expand(-1, log_probabilities.size(1), 1)
    kept = log_probabilities.gather(2, place)
    log_probabilities.masked_fill_(tokens.ne(nothing)[:, None, None], -math.inf)
    log_probabilities.scatter_(2, place, kept)


def block_repeats(log_probabilities: Tensor, history: Tensor, n: int) -> None:
    """Forbid tokens that would repeat an n-gram of the hypothesis; `history` is (b, W, T)."""
    if history.size(2) < n:
        return
    ngrams = history.unfold(2, n, 1)  # (b, W, T - n + 1, n)
    latest = history[:, :, history.size(2) - n + 1 :]  # (b, W, n - 1)
    begun = (ngrams[..., :-1] == latest[:, :, None]).all(-1)
    most = log_probabilities.new_full(begun.shape, math.inf).masked_fill_(begun, -math.inf)
    log_probabilities.scatter_reduce_(2, ngrams[..., -1], most, "amin")


def allow_only(choose: Callable[[int, Tensor], list[int]]) -> Constraint:
    """Make a constraint from fairseq's `prefix_allowed_tokens_fn`: (sentence, tokens) -> list."""

    def constrain(log_probabilities: Tensor, step: Step) -> None:
        history = step.history
        banned = torch.ones_like(log_probabilities, dtype=torch.bool)
        for place, sentence in enumerate(step.sentences.tolist()):
            for beam in range(log_probabilities.size(1)):
                banned[place, beam, choose(sentence, history[place, beam])] = False
        log_probabilities.masked_fill_(banned, -math.inf)

    return constrain
