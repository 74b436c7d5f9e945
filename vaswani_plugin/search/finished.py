"""Finished hypotheses: their scores, which are kept, when a search is done, and their tokens.

The rules are the authors' or fairseq's. The history of a search copies nothing: a hypothesis is
traced back when the whole batch is done.

Axes: B searches (of sentences, or of groups of beams), W beams or hypotheses of each, T tokens.
"""

import math
from copy import copy
from typing import NamedTuple

import torch
from torch import Tensor

from vaswani_plugin.modules.length_penalty import length_penalty

Hypothesis = dict[str, Tensor]

_EMPTY = torch.empty(0, device="cpu")


class PaperRules:
    """Section 6.1 and the authors' code.

    Each step has 2 W candidates, and each of them may end. Of all finished hypotheses, the W with
    the best scores log P / lp are kept. A search is done when the best unfinished hypothesis, with
    the most favourable penalty that it can still reach, can't beat the worst kept hypothesis. If
    only the best `wanted` hypotheses are needed, the worst of those is compared instead: the search
    ends earlier with the same result. A beam of 1 is greedy and stops at the first end of sentence.

    Every sentence has its own limit, so its translation doesn't depend on the rest of the batch.

    Args:
        alpha: exponent of the length penalty; 0 scores by log P alone.
        wanted: how many of the kept hypotheses are needed; None: all.
    """

    by_sentence = True

    def __init__(self, alpha: float, wanted: int | None = None) -> None:
        self.alpha = alpha
        self.wanted = wanted

    def may_end(self, beam: int) -> int:
        """Return how many of a step's candidates, the likeliest first, may end; `beam` is W."""
        return 2 * beam if beam > 1 else 1

    def score(self, log_probabilities: Tensor, length: int) -> Tensor:
        """Scores of hypotheses of `length` tokens, end of sentence included."""
        return log_probabilities / length_penalty(length, self.alpha)

    def rank(self, scores: Tensor, step: int) -> Tensor:
        """Rank finished hypotheses, (B, W) -> (B, W); the greatest ranks are kept."""
        return scores

    def done(self, kept: Tensor, best_open: Tensor, step: int, limits: Tensor) -> Tensor:
        """Return which searches can't improve.

        Args:
            kept: ranks of the kept hypotheses, best first, -inf where there is none, (B, W).
            best_open: greatest log P of an unfinished hypothesis, (B,).
            step: tokens of every unfinished hypothesis, less one.
            limits: greatest number of tokens before the end of sentence, (B,).

        Returns:
            Boolean (B,).
        """
        if kept.size(1) == 1:
            return kept[:, 0] > -math.inf
        worst = kept[:, min(self.wanted or kept.size(1), kept.size(1)) - 1]
        bound = best_reachable_score(best_open, step + 2, limits + 1, self.alpha)
        return (worst > -math.inf) & (worst >= bound)


class FairseqRules:
    """fairseq's rules: the first W hypotheses that end are kept, and then the search is done.

    Of the 2 W candidates of a step only the first W may end. The longest source of a batch sets the
    limit of all its sentences.

    Args:
        exponent: scores are log P / |Y|^exponent; 0 scores by log P alone.
    """

    by_sentence = False

    def __init__(self, exponent: float) -> None:
        self.exponent = exponent

    def may_end(self, beam: int) -> int:
        """See `PaperRules.may_end`."""
        return beam

    def score(self, log_probabilities: Tensor, length: int) -> Tensor:
        """Scores of hypotheses of `length` tokens, end of sentence included."""
        return log_probabilities / length**self.exponent

    def rank(self, scores: Tensor, step: int) -> Tensor:
        """Rank finished hypotheses, (B, W) -> (B, W); earlier ones rank higher."""
        width = scores.size(1)
        arrival = step * width + torch.arange(width, device=scores.device, dtype=scores.dtype)
        return scores.new_zeros(scores.shape).sub_(arrival)

    def done(self, kept: Tensor, best_open: Tensor, step: int, limits: Tensor) -> Tensor:
        """See `PaperRules.done`."""
        return kept[:, -1] > -math.inf


def best_reachable_score(
    log_probability: float | Tensor, length: int, limit: int | Tensor, alpha: float
) -> float | Tensor:
    """Compute the best score that an unfinished hypothesis can still reach.

    log P never grows as tokens are added. With alpha > 0 the penalty is most favourable at
    the longest output, with alpha < 0 at the shortest.

    Args:
        log_probability: log P of the tokens so far, at most 0.
        length: the least length it can end with.
        limit: the greatest length it can end with.
        alpha: exponent of the penalty.

    Returns:
        An upper bound of log P / lp over all continuations of the hypothesis.
    """
    favourable = limit if alpha > 0 else length
    return log_probability / length_penalty(favourable, alpha)


class Paths(NamedTuple):
    """Hypotheses of some searches, to be traced back.

    Attributes:
        step: the step whose numbering `searches` uses; the next step means the current numbering.
        searches: (B',).
        beams: (B', K), the beam of each hypothesis after `lengths` tokens.
        lengths: (B', K), in tokens; None: every hypothesis has `step` tokens.
    """

    step: int
    searches: Tensor
    beams: Tensor
    lengths: Tensor | None = None

    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return searches, beams and lengths; without given lengths, every length is `step`."""
        lengths = self.lengths
        if lengths is None:
            lengths = torch.full_like(self.beams, self.step)
        return self.searches, self.beams, lengths


class Trace(NamedTuple):
    """Tokens (B, K, T), their cumulative log P (B, K, T) and attention (B, K, T, S) if any."""

    tokens: Tensor
    log_probabilities: Tensor
    attention: Tensor | None


class History:
    """The tokens of each step, their log P, and the beam that each continues. Copies nothing."""

    def __init__(self) -> None:
        self.steps: list[tuple[Tensor, ...]] = []
        self.attention: list[Tensor] = []
        self.kept: list[Tensor | None] = [None]
        """For each step and the next one: the searches kept from the previous step; None: all."""

    def add(self, tokens: Tensor, log_probabilities: Tensor, beams: Tensor) -> None:
        """Add a step: tokens, cumulative log P, and the beams that they continue, each (B, W)."""
        self.steps.append((tokens, log_probabilities, beams))
        self.kept.append(None)

    def add_attention(self, attention: Tensor) -> None:
        """Add the attention of the step to be chosen next, (B, W', S), by the beams before it."""
        self.attention.append(attention)

    def keep(self, searches: Tensor) -> None:
        """Keep these searches only, (B',). Call it after `add`."""
        before = self.kept[-1]
        self.kept[-1] = searches if before is None else before[searches]

    def trace(self, *paths: Paths) -> Trace:
        """Trace hypotheses back to the start.

        Args:
            paths: the latest step first.

        Returns:
            Tokens, log P and attention in the order of the paths. Positions beyond a hypothesis's
            length have no meaning.
        """
        waiting = list(reversed(paths))
        searches, beams, lengths = (x[:0] for x in waiting[-1].tensors())
        found = []
        for number in reversed(range(len(self.steps) + 1)):
            if number < len(self.steps) and self.kept[number + 1] is not None:
                searches = self.kept[number + 1][searches]
            while waiting and waiting[-1].step == number:
                new = waiting.pop().tensors()
                joined = zip((searches, beams, lengths), new, strict=True)
                searches, beams, lengths = (torch.cat(pair) for pair in joined)
            if number == len(self.steps):
                continue
            tokens, log_p, origins = (x[searches] for x in self.steps[number])
            step = [tokens.gather(1, beams), log_p.gather(1, beams), None]
            beams = torch.where(lengths > number, origins.gather(1, beams), beams)
            if self.attention:  # also at the end of sentence
                attention = self.attention[number][searches]
                place = beams[:, :, None].expand(-1, -1, attention.size(2))
                step[2] = attention.gather(1, place)
            found.append(step)
        if not found:
            return Trace(beams[..., None][..., :0], beams.new_zeros(*beams.shape, 0).float(), None)
        tokens, log_p, attention = zip(*reversed(found), strict=True)
        stacked = _stack(attention) if self.attention else None
        return Trace(_stack(tokens), _stack(log_p), stacked)


def _stack(steps: tuple[Tensor, ...]) -> Tensor:
    """Stack T tensors (B_t, K, ...) to (B, K, T, ...); the first must have the most rows."""
    stacked = steps[0].new_zeros(len(steps), *steps[0].shape)
    for place, step in zip(stacked, steps, strict=True):
        place[: len(step)] = step
    return stacked.movedim(0, 2)


class FinishedHypotheses:
    """The finished hypotheses that each search keeps, highest rank first.

    Args:
        searches: B.
        beam: W.
        like: a tensor with the device and type of the log-probabilities.
        rules: decide which hypotheses are kept.
    """

    def __init__(
        self, searches: int, beam: int, like: Tensor, rules: PaperRules | FairseqRules
    ) -> None:
        self.rules = rules
        self.rank = like.new_full((searches, beam), -math.inf)
        self.score = self.rank.clone()
        self.log_p = self.rank.clone()
        self.step = torch.zeros(searches, beam, dtype=torch.long, device=like.device)
        self.beam = self.step.clone()  # the beam before the end
        self.done = torch.zeros(searches, dtype=torch.bool, device=like.device)

    def enter(self, step: int, ends: Tensor, log_p: Tensor, beams: Tensor) -> None:
        """Add candidates that finish now, and keep the best.

        Args:
            step: tokens before the end of sentence.
            ends: True for candidates that finish, (B, W).
            log_p: log P, end of sentence included, (B, W).
            beams: the beam that each candidate continues, (B, W).
        """
        score = self.rules.score(log_p, step + 1)
        rank = self.rules.rank(score, step).masked_fill(~ends, -math.inf)
        steps = torch.full_like(beams, step)
        self.rank, order = torch.cat((self.rank, rank), 1).topk(self.rank.size(1), dim=1)
        for name, new in (("score", score), ("log_p", log_p), ("step", steps), ("beam", beams)):
            both = torch.cat((getattr(self, name), new), dim=1)
            setattr(self, name, both.gather(1, order))

    def keep(self, searches: Tensor) -> None:
        """Keep these searches only, (B',)."""
        for name in ("rank", "score", "log_p", "step", "beam", "done"):
            setattr(self, name, getattr(self, name).index_select(0, searches))

    def of(self, searches: Tensor) -> "FinishedHypotheses":
        """A copy that holds these searches only, (B',)."""
        picked = copy(self)
        picked.keep(searches)
        return picked


class FinishedSearches:
    """Searches that are done and the hypotheses they kept, until the whole batch is done.

    Tracing a hypothesis back takes one call per token, so all hypotheses of a batch are traced
    together.
    """

    def __init__(self) -> None:
        self.paths: list[Paths] = []
        self.kept: list[FinishedHypotheses] = []

    def add(self, step: int, searches: Tensor, ended: FinishedHypotheses) -> None:
        """Add searches that are done after this step, (B',), in that step's numbering."""
        kept = ended.of(searches)
        self.paths.append(Paths(step, searches, kept.beam, kept.step))
        self.kept.append(kept)

    def hypotheses(self, history: History, eos: int) -> list[list[Hypothesis]]:
        """Return fairseq's dictionaries: the latest added searches first, best scores first."""
        last_first = self.kept[::-1]
        score, ends, end_log_p, ranks = (
            torch.cat([getattr(kept, name) for kept in last_first])
            for name in ("score", "step", "log_p", "rank")
        )
        tokens, log_p, attention = history.trace(*self.paths[::-1])
        tokens = torch.cat((tokens, torch.full_like(tokens[..., :1], eos)), dim=2)
        log_p = torch.cat((log_p, log_p.new_zeros(*log_p.shape[:2], 1)), dim=2)
        tokens = tokens.scatter(2, ends[:, :, None], eos).cpu()
        log_p = log_p.scatter(2, ends[:, :, None], end_log_p[:, :, None].to(log_p))
        positional = log_p.diff(dim=2, prepend=log_p.new_zeros(*log_p.shape[:2], 1)).cpu()
        attention = None if attention is None else attention.cpu()
        score, steps, ranks = score.cpu(), ends.tolist(), ranks.tolist()
        results = []
        for row in range(len(ranks)):
            found = []
            for place, rank in enumerate(ranks[row]):
                if rank == -math.inf:
                    continue
                here = row, place, slice(steps[row][place] + 1)
                found.append(
                    {
                        "tokens": tokens[here].clone(),
                        "score": score[row, place],
                        "attention": _EMPTY if attention is None else attention[here].T.clone(),
                        "alignment": _EMPTY,
                        "positional_scores": positional[here].clone(),
                    }
                )
            results.append(sorted(found, key=lambda hypothesis: -hypothesis["score"].item()))
        return results
