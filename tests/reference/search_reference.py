"""Decoding by enumeration of all outputs; a model gives log-probabilities after a prefix."""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

LogProbabilities = Callable[[tuple[int, ...]], Sequence[float]]


class Output(NamedTuple):
    """A finished output: its tokens with the end, log P, and the score that ranks it."""

    tokens: tuple[int, ...]
    log_probability: float
    score: float


def gnmt_penalty(length: int, alpha: float) -> float:
    """Wu et al. 2016, Eq. 14: (5 + |Y|)^alpha / (5 + 1)^alpha."""
    return (5 + length) ** alpha / (5 + 1) ** alpha


def log_probability(model: LogProbabilities, tokens: Sequence[int]) -> float:
    """Chain rule: the sum of log P of each token given those before it."""
    total = 0.0
    for place, token in enumerate(tokens):
        total += float(model(tuple(tokens[:place]))[token])
    return total


def enumerate_outputs(
    model: LogProbabilities, words: Sequence[int], end: int, longest: int, alpha: float
) -> list[Output]:
    """All outputs of 1 to `longest` words and the end, the best score first."""
    outputs = []
    for length in range(1, longest + 1):
        for body in itertools.product(words, repeat=length):
            tokens = (*body, end)
            total = log_probability(model, tokens)
            outputs.append(Output(tokens, total, total / gnmt_penalty(len(tokens), alpha)))
    return sorted(outputs, key=lambda output: -output.score)


def beam_search(
    model: LogProbabilities, words: Sequence[int], end: int, beam: int, longest: int, alpha: float
) -> list[Output]:
    """Beam search as tensor2tensor 1.0.3 describes it, without early stopping.

    Of the 2 x beam likeliest continuations of a step ("grow_topk"), all that end join the finished
    ones, of which the best `beam` by score are kept ("grow_finished"); the likeliest `beam` of the
    others go on ("grow_alive"). No end before the first word.
    """
    open_prefixes: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    ended = []
    for step in range(longest + 1):
        choices = list(words) if step == 0 else [*words, end]
        if step == longest:
            choices = [end]
        candidates = []
        for prefix, total in open_prefixes:
            log_p = model(prefix)
            candidates += [((*prefix, token), total + float(log_p[token])) for token in choices]
        candidates.sort(key=lambda candidate: -candidate[1])
        grown = candidates[: 2 * beam]
        for tokens, total in grown:
            if tokens[-1] == end:
                ended.append(Output(tokens, total, total / gnmt_penalty(len(tokens), alpha)))
        ended = sorted(ended, key=lambda output: -output.score)[:beam]
        open_prefixes = [candidate for candidate in grown if candidate[0][-1] != end][:beam]
    return ended


def greedy(
    model: LogProbabilities, words: Sequence[int], end: int, longest: int
) -> tuple[int, ...]:
    """The likeliest next token, again and again; no end before the first word."""
    tokens: tuple[int, ...] = ()
    while True:
        choices = [*words, end] if tokens else list(words)
        if len(tokens) == longest:
            choices = [end]
        log_p = model(tokens)
        tokens = (*tokens, max(choices, key=lambda token: float(log_p[token])))
        if tokens[-1] == end:
            return tokens
