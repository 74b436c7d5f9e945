"""Hypotheses: how a step chooses their continuations, their histories, and which are kept.

A step chooses the likeliest continuations, those of diverse groups, or samples; each function takes
log P of the next token (b, W, V) and of the hypotheses so far (b, W).

Axes: b sentences, W beams, V vocabulary, G groups of w = W/G beams; B searches, one a group, whose
beams are the W of the rules, with K hypotheses or C candidates each; T tokens, S source length.
"""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from vaswani_plugin.model.build import has_search_shortcuts
from vaswani_plugin.search.models import chosen_rows
from vaswani_plugin.search.options import length_penalty

BLOCKS = 16
"""Tokens of a block of the vocabulary. The blocks' maxima show where the best tokens are."""
WORTH_BLOCKS = 2**16
"""Number of log-probabilities from which the search by blocks pays."""


class Candidates(NamedTuple):
    """Continuations of each group, by preference: three tensors (b, G, C)."""

    log_probabilities: Tensor
    tokens: Tensor
    beams: Tensor  # that they continue, numbered within the group


def best(log_p: Tensor, so_far: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Find the `count` greatest sums of a token's log P and its hypothesis's, in one pass.

    The k greatest entries are in the k blocks with the greatest maxima. Returns the sums, greatest
    first, and their places in the flattened (W V): both (b, count).
    """
    sentences, beams, vocabulary = log_p.shape
    width = vocabulary // BLOCKS
    is_small = beams * width < 4 * count or log_p.numel() < WORTH_BLOCKS
    if is_small or not has_search_shortcuts():
        return (log_p + so_far[:, :, None]).flatten(1).topk(count, dim=1)
    # A block is every width-th token: its maximum is then taken over whole vectors.
    maxima = log_p[..., : BLOCKS * width].unflatten(2, (BLOCKS, width)).amax(dim=2)
    maxima = maxima.add_(so_far[:, :, None]).flatten(1)
    block = maxima.topk(count, dim=1, sorted=False).indices  # (b, count)
    first = block // width * vocabulary + block % width
    inside = torch.arange(BLOCKS, device=log_p.device) * width
    beam = torch.arange(beams, device=log_p.device)[:, None] * vocabulary
    rest = beam + torch.arange(BLOCKS * width, vocabulary, device=log_p.device)
    rest = rest.flatten().expand(sentences, -1)
    places = torch.cat(((first[:, :, None] + inside).flatten(1), rest), dim=1)
    totals = log_p.flatten(1).gather(1, places) + so_far.gather(1, places // vocabulary)
    top = totals.topk(count, dim=1)
    return top.values, places.gather(1, top.indices)


def best_candidates(log_p: Tensor, so_far: Tensor, beam: int) -> Candidates:
    """Select for beam search: the 2 W likeliest, so that W unfinished ones remain if W end."""
    count = min(2 * beam, log_p.size(1) * log_p.size(2) - 1)  # padding never comes
    values, places = (x[:, None] for x in best(log_p, so_far, count))
    return Candidates(values, places % log_p.size(2), places // log_p.size(2))


def diverse_candidates(
    log_p: Tensor, so_far: Tensor, beam: int, groups: int, strength: float, open_groups: Tensor
) -> Candidates:
    """Vijayakumar et al. 2018: a group avoids tokens that earlier groups chose in this step.

    For the choice alone, a token's log P is lowered by `strength` each time an earlier group chose
    it; choices of groups that are done, False in `open_groups` (b, G), don't count.
    """
    w = beam // groups
    chosen = log_p.new_zeros(log_p.size(0), 1, log_p.size(2))
    collected = []
    for group in range(groups):
        beams = slice(0, 1) if log_p.size(1) == 1 else slice(group * w, (group + 1) * w)
        count = min(2 * w, log_p[:, beams].size(1) * log_p.size(2) - 1)
        _, places = best(log_p[:, beams] - strength * chosen, so_far[:, beams], count)
        tokens = places % log_p.size(2)
        going_on = open_groups[:, group, None] & (torch.arange(count, device=places.device) < w)
        chosen.scatter_add_(2, tokens[:, None], going_on[:, None].to(chosen))
        values = (log_p[:, beams] + so_far[:, beams, None]).flatten(1).gather(1, places)
        collected.append((values, tokens, places // log_p.size(2)))
    return Candidates(*(torch.stack(x, dim=1) for x in zip(*collected, strict=True)))


def sampled_candidates(
    log_p: Tensor,
    so_far: Tensor,
    beam: int,
    top_k: int,
    top_p: float,
    random: torch.Generator | None,
) -> Candidates:
    """Draw W independent samples, each a group of its own: of all tokens, of the `top_k` likeliest,
    or of the fewest likeliest whose probability reaches `top_p` (Holtzman et al. 2020), if above 0.
    """
    if top_p > 0:
        kept, tokens = log_p.sort(dim=2, descending=True)
        probability = kept.softmax(dim=2)  # some tokens may be forbidden
        kept = kept.masked_fill(probability.cumsum(dim=2) - probability >= top_p, -math.inf)
    elif top_k > 0:
        kept, tokens = log_p.topk(min(top_k, log_p.size(2)), dim=2)
    else:
        kept, tokens = log_p, None
    # Where every token is ruled out, any one is drawn; its log P of -inf ends the sample.
    weights = kept.softmax(dim=2).nan_to_num(1.0)
    draws = beam if log_p.size(1) == 1 else 1
    drawn = weights.flatten(0, 1).multinomial(draws, replacement=True, generator=random)
    place = drawn.view(-1, beam)[:, :, None]  # (b, W, 1)
    if tokens is not None:
        place = tokens.expand(-1, beam, -1).gather(2, place)
    values = log_p.expand(-1, beam, -1).gather(2, place) + so_far.expand(-1, beam)[:, :, None]
    return Candidates(values, place, torch.zeros_like(place))


class Found(NamedTuple):
    """A hypothesis that a search returns, on the CPU. All logarithms are natural."""

    tokens: Tensor  # with the end of sentence, (T,)
    score: Tensor  # log P / length penalty
    attention: Tensor  # to the source, (S, T); empty where none is wanted
    alignment: Any  # see `search.hard_alignment`; empty unless asked for
    positional_scores: Tensor  # log P of each token, (T,)


class PaperRules:
    """Section 6.1 and the authors' code. `alpha`: of the length penalty; 0 scores by log P alone.

    Each step has 2 W candidates, and each of them may end. Of all finished hypotheses, the W with
    the best scores log P / lp are kept. A search is done when the best unfinished hypothesis, with
    the most favourable penalty that it can still reach, can't beat the worst kept one, or the worst
    of those `wanted`. A beam of 1 is greedy and stops at the first end of sentence.

    Every sentence has its own limit, so its translation doesn't depend on the rest of the batch.
    """

    by_sentence = True

    def __init__(self, alpha: float, wanted: int | None = None) -> None:
        self.alpha, self.wanted = alpha, wanted

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
        """Return which searches can't improve, boolean (B,), after `step` + 1 tokens.

        `kept` (B, W) are the ranks of those kept, best first, -inf where there is none; `best_open`
        (B,) is the greatest log P of an unfinished one; `limits` (B,): see `StartTracking`.
        """
        if kept.size(1) == 1:
            return kept[:, 0] > -math.inf
        worst = kept[:, min(self.wanted or kept.size(1), kept.size(1)) - 1]
        # log P only falls: with alpha > 0 the longest output's penalty is best, else the shortest.
        favourable = limits + 1 if self.alpha > 0 else step + 2
        return (worst > -math.inf) & (worst >= best_open / length_penalty(favourable, self.alpha))


class FairseqRules(PaperRules):
    """fairseq's rules: the first W hypotheses that end are kept, and then the search is done.

    Of the 2 W candidates of a step only the first W may end. The longest source of a batch sets the
    limit of all its sentences. Scores are log P / |Y|^alpha.
    """

    by_sentence = False

    def may_end(self, beam: int) -> int:
        return beam

    def score(self, log_probabilities: Tensor, length: int) -> Tensor:
        return log_probabilities / length**self.alpha

    def rank(self, scores: Tensor, step: int) -> Tensor:
        """See `PaperRules`; earlier ones rank higher."""
        width = scores.size(1)
        arrival = step * width + torch.arange(width, device=scores.device, dtype=scores.dtype)
        return scores.new_zeros(scores.shape).sub_(arrival)

    def done(self, kept: Tensor, best_open: Tensor, step: int, limits: Tensor) -> Tensor:
        return kept[:, -1] > -math.inf


class Histories(NamedTuple):
    """What is known of hypotheses: of each search K of them, after T tokens."""

    tokens: Tensor  # (B, K, T)
    log_p: Tensor  # cumulative, after each token, (B, K, T)
    attention: Tensor | None  # to the source at each token, (B, K, T, S); None: not wanted

    def of(self, searches: Tensor) -> "Histories":
        """Those of some searches, (B',)."""
        return Histories._make(None if x is None else x[searches] for x in self)

    def extended(self, places: Tensor, tokens: Tensor, log_p: Tensor) -> "Histories":
        """The hypotheses at `places` of each search, with one more token and log P: each (B, K').

        The attention at that token is there already.
        """
        rows = chosen_rows(places, self.tokens.size(1))
        old = Histories._make(None if x is None else _take(x, rows) for x in self)
        tokens = torch.cat((old.tokens, tokens[:, :, None]), dim=2)
        log_p = torch.cat((old.log_p.to(log_p), log_p[:, :, None]), dim=2)
        return Histories(tokens, log_p, old.attention)


def _take(x: Tensor, rows: Tensor) -> Tensor:
    """(B, K, ...) -> (B, K', ...), given the B K' numbers of the hypotheses among all B K."""
    return x.flatten(0, 1).index_select(0, rows).unflatten(0, (len(x), -1))


class FinishedHypotheses:
    """The finished hypotheses that each search keeps, at most W, highest rank first.

    `begun` are the histories before the first token.
    """

    def __init__(self, beam: int, begun: Histories, rules: PaperRules) -> None:
        self.rules = rules
        searches, device = len(begun.tokens), begun.tokens.device
        self.rank = torch.full((searches, beam), -math.inf, device=device)
        self.score = self.rank.clone()
        self.length = torch.zeros(searches, beam, dtype=torch.long, device=device)
        wide = (x if x is None else x.repeat_interleave(beam, dim=1) for x in begun)
        self.histories = Histories._make(wide)  # of none yet: any will do
        self.done = torch.zeros(searches, dtype=torch.bool, device=device)

    def enter(self, ends: Tensor, candidates: Histories) -> None:
        """Add candidates (B, C), the end included, where `ends` (B, C) is True; keep the best."""
        length = candidates.tokens.size(2)
        score = self.rules.score(candidates.log_p[:, :, -1], length)
        rank = self.rules.rank(score, length - 1).masked_fill(~ends, -math.inf)
        ranks = torch.cat((self.rank, rank), dim=1)
        self.rank, order = ranks.topk(self.rank.size(1), dim=1)
        rows = chosen_rows(order, ranks.size(1))

        def best(old: Tensor, new: Tensor) -> Tensor:
            if old.dim() > 2:  # by now hypotheses may be longer
                old = F.pad(old, [0, 0] * (old.dim() - 3) + [0, new.size(2) - old.size(2)])
            return _take(torch.cat((old, new), dim=1), rows)

        self.score = best(self.score, score)
        self.length = best(self.length, torch.full_like(candidates.tokens[:, :, 0], length))
        pairs: Any = zip(self.histories, candidates, strict=True)
        self.histories = Histories._make(x if x is None else best(x, y) for x, y in pairs)

    def keep(self, searches: Tensor) -> None:
        """Keep these searches only, (B',)."""
        for name in ("rank", "score", "length", "done"):
            setattr(self, name, getattr(self, name).index_select(0, searches))
        self.histories = self.histories.of(searches)

    def hypotheses(self, searches: Tensor) -> list[list[Found]]:
        """Return the hypotheses of some searches, (B',), best scores first."""
        tokens, log_p, attention = self.histories.of(searches)
        positional = log_p.diff(dim=2, prepend=torch.zeros_like(log_p[:, :, :1])).cpu()
        tokens, attention = tokens.cpu(), None if attention is None else attention.cpu()
        score, ranks = self.score[searches].cpu(), self.rank[searches].tolist()
        lengths, none = self.length[searches].tolist(), torch.empty(0, device="cpu")
        results: list[list[Found]] = [[] for _ in ranks]
        for row, of_search in enumerate(results):
            for place, rank in enumerate(ranks[row]):
                if rank > -math.inf:
                    here = row, place, slice(lengths[row][place])
                    seen = none if attention is None else attention[here].T.clone()
                    fields = tokens[here].clone(), score[row, place], seen, none
                    of_search.append(Found(*fields, positional[here].clone()))
            of_search.sort(key=lambda hypothesis: -hypothesis.score.item())
        return results
