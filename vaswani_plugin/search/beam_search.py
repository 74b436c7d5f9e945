"""The search over one batch (section 6.1): extend, choose, finish, and drop finished sentences.

The beams of a sentence form groups, each with its own finished hypotheses: one group of W beams for
beam search, G groups of W/G for diverse beams, W groups of one for samples. One group of one
sentence is called a search.

Axes: B unfinished sentences, G groups, w = W/G beams of each, C candidates of each, V vocabulary;
b some of the sentences, S source length, T tokens so far.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.model.build import has_search_shortcuts
from vaswani_plugin.processor import runs_on_host
from vaswani_plugin.search.finished import (
    FairseqRules,
    FinishedHypotheses,
    Found,
    Histories,
    PaperRules,
)
from vaswani_plugin.search.models import Ensemble, all_rows

CHUNK = 2**21
"""Log-probabilities processed together: few enough to stay in the processor's cache."""
DEVICE_CHUNK = 2**26
"""The same on other devices: 256 MiB in float32, enough to keep a GPU busy."""

STEPS_BETWEEN_CHECKS = 4
"""On a GPU, steps between two checks of how many sentences are done and whether scores are numbers.
Only these checks wait for the GPU between the start of a batch and its results."""

BLOCKS = 16
"""Tokens of a block of the vocabulary. The blocks' maxima show where the best tokens are."""
WORTH_BLOCKS = 2**16
"""Number of log-probabilities from which the search by blocks pays."""


class Candidates(NamedTuple):
    """Continuations of each group in the order of choice, first the best: three tensors (b, G, C).

    Diverse groups choose by a lowered log P, so that of the first may not be the greatest.
    """

    log_probabilities: Tensor
    tokens: Tensor
    beams: Tensor  # that they continue, numbered within the group


Choose = Callable[[Tensor, Tensor, Tensor], Candidates]
"""(log P of the next token (b, W, V), log P so far (b, W), open groups (b, G)) -> candidates."""
Constraint = Callable[[Tensor, "Step"], None]
"""Changes log-probabilities (b, W, V) of a step in place."""


class Step(NamedTuple):
    """One step of the search, for some of its sentences."""

    number: int  # of tokens of every unfinished hypothesis
    sentences: Tensor  # their numbers in the original batch, (b,)
    history: Tensor  # the tokens so far, (b, W, T), without the start
    part: slice = slice(None)  # rows of these sentences among all unfinished ones


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


class BeamSearch:
    """The search over one batch of sentences, whose sources the models have encoded.

    `limits` are the greatest numbers of tokens before the end of each sentence; each output begins
    with the tokens of `prefix` (B, P); `start` is the number of the token before the first one.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        choose: Choose,
        constraints: list[Constraint],
        rules: PaperRules | FairseqRules,
        *,
        beam: int,
        groups: int,
        limits: list[int],
        prefix: Tensor,
        start: int,
        eos: int,
        pad: int,
        trackers: Sequence[Tracker] = (),
    ) -> None:
        self.ensemble, self.choose = ensemble, choose
        self.trackers, self.constraints = trackers, [*constraints, *trackers]
        self.rules, self.groups, self.width = rules, groups, beam // groups
        self.eos, self.pad = eos, pad
        self.device, self.prefix = prefix.device, prefix
        self.limits = torch.tensor(limits, device=self.device)
        self.least_limit, self.last_step = min(limits), max(limits)
        self.sentences = torch.arange(len(limits), device=self.device)
        self.latest = torch.full((len(limits), 1), start, device=self.device)
        self.parents: Tensor | None = None
        self.log_p = torch.zeros(self.latest.shape, device=self.device)  # (B, W)
        self.open: Histories | None = None  # of B G searches
        self.finished: FinishedHypotheses | None = None  # made with them
        self.any_finished = False
        self.results: list[list[Found]] = [[] for _ in limits]

    def run(self) -> list[list[Found]]:
        """The hypotheses of each sentence, the best score first."""
        for step in range(self.last_step + 1):
            attention = self.ensemble.step(self.latest, self.parents)
            for tracker in self.trackers:
                tracker.advance(self.latest, self.parents)
            self._begin_step(attention)
            candidates = self._choose_candidates(step)
            ends = candidates.tokens.eq(self.eos)
            self._extend_beams(candidates, ends, self._add_finished(candidates, ends))
            if self.any_finished or step >= self.least_limit:  # before, no sentence can be done
                self._update_done(step)
            if not len(self.sentences):
                break
        return self.results

    def _is_check_due(self, step: int) -> bool:
        return runs_on_host(self.device) or step % STEPS_BETWEEN_CHECKS == 0

    def _begin_step(self, attention: Tensor | None) -> None:
        """Start the histories, or add the attention (B, W, S) of the token to be chosen next."""
        searches = len(self.sentences) * self.groups
        if attention is not None:
            if self.open is None:  # at the start all groups share one beam
                attention = attention.repeat_interleave(self.groups, 0)
            attention = attention.reshape(searches, -1, 1, attention.size(-1))
        if self.open is None:
            none = self.latest.new_zeros(searches, 1, 0)
            self.open = Histories(none, none.float(), attention)
            self.finished = FinishedHypotheses(self.width, self.open, self.rules)
        elif attention is not None:
            both = torch.cat((self.open.attention, attention), dim=2)
            self.open = self.open._replace(attention=both)

    def _choose_candidates(self, step: int) -> Candidates:
        """Choose the candidates, a chunk of the sentences at a time."""
        open_groups = ~self.finished.done.view(-1, self.groups)
        elements = CHUNK if runs_on_host(self.device) else DEVICE_CHUNK
        rows = max(1, elements // (self.ensemble.vocabulary * self.latest.size(1)))
        found = []
        for begin in range(0, len(self.sentences), rows):
            part = slice(begin, begin + rows)
            log_p = self.ensemble.log_probabilities(part)
            # A NaN fills its whole row.
            if self._is_check_due(step) and log_p[:, :, 0].isnan().any():
                raise UserError(
                    "the model's scores are not numbers (NaN): its weights are broken; use another "
                    "checkpoint"
                )
            self._constrain(step, part, log_p)
            found.append(self.choose(log_p, self.log_p[part], open_groups[part]))
        joined = found[0] if len(found) == 1 else map(torch.cat, zip(*found, strict=True))
        return Candidates(*(x.flatten(0, 1) for x in joined))

    def _constrain(self, number: int, part: slice, log_p: Tensor) -> None:
        so_far = self.open.tokens.reshape(*self.latest.shape, number)[part]
        step = Step(number, self.sentences[part], so_far, part)
        for constrain in self.constraints:
            constrain(log_p, step)
        if number < self.prefix.size(1):
            free = self.limits[part] <= number
            force_token(log_p, self.prefix[part, number].masked_fill(free, self.pad), self.pad)
        if number >= self.least_limit:
            force_end(log_p, self.limits[part] <= number, self.eos)

    def _add_finished(self, candidates: Candidates, ends: Tensor) -> bool:
        """Add candidates that end to the finished hypotheses, as far as the rules allow.

        Returns whether a candidate may end. On a GPU it is always True: a check would wait.
        """
        if runs_on_host(self.device) and not ends.any():
            return False
        self.any_finished = True
        count = self.rules.may_end(self.width)
        log_p, tokens, beams = (x[:, :count] for x in candidates)
        ends = ends[:, : log_p.size(1)] & log_p.gt(-torch.inf) & ~self.finished.done[:, None]
        self.finished.enter(ends, self.open.taken(beams).with_token(tokens, log_p))
        return True

    def _extend_beams(self, candidates: Candidates, ends: Tensor, some_end: bool) -> None:
        """Take the first w unfinished candidates as the beams of the next step."""
        w = self.width
        log_p, tokens, beams = (x[:, :w] for x in candidates)
        if some_end:
            order = ends.byte().argsort(dim=1, stable=True)[:, :w]
            log_p, tokens, beams = (x.gather(1, order) for x in candidates)
            log_p = log_p.masked_fill(tokens.eq(self.eos), -torch.inf)  # where too few go on
        self.open = self.open.taken(beams).with_token(tokens, log_p)
        in_group = beams.unflatten(0, (-1, self.groups))
        shape = (len(self.sentences), -1)
        first = torch.arange(self.groups, device=self.device) * w
        if self.parents is None:  # at first a sentence has one beam
            self.parents = torch.zeros_like(in_group).reshape(shape)
        else:
            self.parents = (in_group + first[:, None]).reshape(shape)
        self.latest = tokens.reshape(shape).contiguous()
        self.log_p = log_p.reshape(shape)

    def _update_done(self, step: int) -> None:
        """Mark the searches that are done; drop finished sentences when a check is due."""
        best_open = self.log_p.unflatten(1, (self.groups, -1)).amax(dim=2).flatten()
        limits = self.limits.repeat_interleave(self.groups)
        done = self.rules.done(self.finished.rank, best_open, step, limits)
        self.finished.done |= done | limits.le(step) | best_open.eq(-torch.inf)
        if step == self.last_step or self._is_check_due(step):
            self._drop_finished(step == self.last_step)

    def _drop_finished(self, last: bool) -> None:
        """Remove finished sentences from the batch once there are enough of them."""
        done = self.finished.done.view(-1, self.groups).all(dim=1) | last
        if 8 * int(done.sum()) < len(done):
            return
        dropped, kept = done.nonzero()[:, 0], (~done).nonzero()[:, 0]
        self._add_results(dropped)
        self.sentences = self.sentences[kept]
        if not len(kept):
            return
        searches = all_rows(kept, self.groups)
        self.finished.keep(searches)
        self.open = self.open.of(searches)
        self.limits, self.prefix = self.limits[kept], self.prefix[kept]
        self.latest, self.log_p = self.latest[kept], self.log_p[kept]
        self.parents = self.parents[kept]
        for follower in (self.ensemble, *self.trackers):
            follower.keep(kept)

    def _add_results(self, dropped: Tensor) -> None:
        """Add the hypotheses of sentences that are done, over all their groups."""
        found = iter(self.finished.hypotheses(all_rows(dropped, self.groups)))
        for sentence in self.sentences[dropped].tolist():
            own = [hypothesis for _ in range(self.groups) for hypothesis in next(found)]
            if not own:
                raise UserError(
                    "no output of a sentence meets all constraints; take some back (no repeated "
                    "n-grams, a prefix, allowed tokens, a least length), or raise --max-len-b"
                )
            self.results[sentence] = sorted(own, key=lambda h: -h.score.item())


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
    vocabulary = log_p.size(2)
    count = min(2 * beam, log_p.size(1) * vocabulary - 1)  # padding never comes
    values, places = best(log_p, so_far, count)
    found = values, places % vocabulary, places // vocabulary
    return Candidates(*(x[:, None] for x in found))


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
