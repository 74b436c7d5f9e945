"""Beam search (section 6.1): options in, the hypotheses of a batch out; threads share the batch.

Threads inside an operation wait for each other at its end; threads with their own sentences don't
(`vaswani_tiny`, AVX2: 6.6 s with two such threads, 7.3 s inside, 11.3 s with one). The beams of a
sentence form groups, each with its own finished hypotheses: one group of W beams for beam search, G
groups of W/G for diverse beams, W of one for samples. One group of a sentence is called a search.

Axes: B unfinished sentences, G groups, w = W/G beams of each, C candidates of each, V vocabulary;
b some of the sentences, S source length, T tokens so far.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from vaswani_plugin.errors import UserError
from vaswani_plugin.processor import runs_on_host
from vaswani_plugin.search.hypotheses import (
    Candidates,
    FairseqRules,
    FinishedHypotheses,
    Found,
    Histories,
    PaperRules,
    best_candidates,
    diverse_candidates,
    sampled_candidates,
)
from vaswani_plugin.search.models import Ensemble, Model, SearchDictionary, Sources, all_rows
from vaswani_plugin.search.options import SearchOptions

CHUNK, DEVICE_CHUNK = 2**21, 2**26
"""Log-probabilities processed together: those that stay in a CPU's cache, or keep a GPU busy."""
STEPS_BETWEEN_CHECKS = 4
"""On a GPU, steps between two checks of how many sentences are done and whether scores are numbers.
Only these checks wait for the GPU between the start of a batch and its results."""
WORTH_THREADS = 2**25
"""Multiply-adds of a step from which PyTorch's threads gain inside its operations. (One sentence,
two threads: `vaswani_tiny` 1.0 times as fast, base 1.5; beside a busy process tiny 0.02 times.)"""
LEAST_SHARE, MOST_SHARES = 8, 4
"""Fewest sentences of a thread, and most threads; only two were measured."""

Constraint = Callable[[Tensor, "Step"], None]
"""Changes log-probabilities (b, W, V) of a step in place."""


class Step(NamedTuple):
    """One step of the search, for some of its sentences."""

    number: int  # of tokens of every unfinished hypothesis
    sentences: Tensor  # their numbers in the original batch, (b,)
    history: Tensor  # the tokens so far, (b, W, T), without the start
    start: Tensor  # the token before the first one, (1, 1, 1)
    part: slice = slice(None)  # rows of these sentences among all unfinished ones


class Tracker(Protocol):
    """A constraint with a state for each hypothesis; the search calls it as a model's `Beams`.

    `keep` of a shallow copy leaves the original unchanged, because it assigns new tensors.
    """

    def advance(self, tokens: Tensor, parents: Tensor | None) -> None:
        """Append tokens (B, W) to the earlier hypotheses `parents` (B, W); None at first."""

    def __call__(self, log_probabilities: Tensor, step: Step) -> None:
        """See `Constraint`."""

    def keep(self, sentences: Tensor) -> None:
        """Keep these sentences only, (B',)."""


StartTracking = Callable[[Tensor, list[int]], Tracker]
"""(source tokens (B, S), greatest number of tokens before the end of each sentence) -> tracker."""


class Search:
    """A search over one model, or an ensemble, with fixed options.

    Args:
        models: over the same target dictionary.
        dictionary: of the target.
        tokens_to_suppress: words that are never output.
        eos: number of the end of sentence, if not the dictionary's.
        constraints: further constraints on the next token.
        start_tracking: functions that make the trackers of a batch.
        random: draws the samples; None: PyTorch's own generator of the device.

    Raises:
        UserError: when the models' dictionaries differ.
    """

    def __init__(
        self,
        models: list[Model],
        dictionary: SearchDictionary,
        options: SearchOptions,
        *,
        tokens_to_suppress: tuple[str, ...] = (),
        eos: int | None = None,
        constraints: tuple[Constraint, ...] = (),
        start_tracking: tuple[StartTracking, ...] = (),
        random: torch.Generator | None = None,
    ) -> None:
        for number, model in enumerate(models, start=1):
            known = model.dictionary
            if known is not None and known != dictionary:
                raise UserError(
                    f"model {number} of {len(models)} has another target dictionary ({len(known)} "
                    f"tokens) than the task ({len(dictionary)}); an ensemble needs models that "
                    f"were trained on the same binarized data"
                )
        if not options.sampling:  # as fairseq; padding is never output
            options = replace(options, beam=min(options.beam, len(dictionary) - 1))
        self.models, self.dictionary, self.options = models, dictionary, options
        self.random, self.constraints, self.start_tracking = random, constraints, start_tracking
        # Counted now: fairseq-generate --remove-bpe adds the words of its references later.
        self.vocabulary = len(dictionary)
        self.pad, self.unk = dictionary.pad(), dictionary.unk()
        self.eos = dictionary.eos() if eos is None else eos
        self.suppressed = [dictionary.index(token) for token in tokens_to_suppress]
        lenpen = 0.0 if options.unnormalized else options.lenpen
        # Diverse groups must all run until they are done: each avoids the others' choices.
        wanted = None if options.diverse_beam_groups > 0 else options.nbest
        is_paper = options.length_penalty == "paper"
        self.rules = PaperRules(lenpen, wanted) if is_paper else FairseqRules(lenpen)
        decoders = [model.decoder for model in models if isinstance(model.decoder, nn.Module)]
        self.decoder_weights = sum(p.numel() for each in decoders for p in each.parameters())

    @torch.no_grad()
    def run(
        self,
        sources: Tensor,
        more: dict | None = None,
        prefix: Tensor | None = None,
        start: int | None = None,
        prompts: tuple[list[int], np.ndarray] | None = None,
    ) -> list[list[Found]]:
        """Search the outputs of a batch: at most W hypotheses each, the best score first.

        Args:
            sources: (B, S), padded on either side.
            more: see `Sources`.
            prefix: tokens that each output must begin with, (B, P), padded on the right.
            start: number of the token before the first one; None: end of sentence.
            prompts: where the sources are prompts, most new tokens and length (B,) of each.

        Raises:
            UserError: when no output meets the constraints, or a model's output is not a number.
        """
        options = self.options
        first = sources.new_full((len(sources), 1), self.eos if start is None else start)
        prefix = first[:, :0] if prefix is None else prefix
        limits, lengths = prompts or self._limits(sources, prefix)
        batch = Sources(sources, lengths, more or {})
        starts, shareable = zip(*(model.prepare() for model in self.models), strict=True)
        count = 1
        # Threads can share the batch where sentences are independent and Python has little to do.
        if runs_on_host(sources.device) and all(shareable):
            if not (options.sampling or self.constraints):
                most = min(torch.get_num_threads(), MOST_SHARES)
                count = max(1, min(most, len(limits) // LEAST_SHARE))
        # Every n-th sentence, to spread sentences of similar length evenly.
        shares = [slice(first, None, count) for first in range(count)]
        trackers = [track(sources, limits) for track in self.start_tracking]
        results: list[list[Found]] = [[]] * len(limits)
        with_attention = options.print_alignment is not None

        def search(share: slice) -> None:
            copies = [copy(tracker) for tracker in trackers]
            for tracker in copies:
                tracker.keep(torch.arange(len(limits), device=sources.device)[share])
            part = batch.part(share)
            members = [begin(part, options.beam, with_attention) for begin in starts]
            ensemble = Ensemble(members, self.vocabulary, options.temperature, with_attention)
            rows = first[share], prefix[share], limits[share]
            results[share] = BeamSearch(self, ensemble, copies, *rows).run()

        # A step multiplies each row with every weight of the decoders.
        work = len(limits) * options.beam * self.decoder_weights
        inside = torch.get_num_threads() // len(shares) if work >= WORTH_THREADS else 1
        run_in_threads(search, shares, max(1, inside))
        if prompts is None and not prefix.size(1) and self.rules.by_sentence:
            for place in map(int, (lengths < 2).nonzero()[0]):  # of a source without words
                one, scores = results[place][0], torch.zeros(1, device="cpu")
                end = one.tokens[-1:], scores[0], one.attention[..., :1], one.alignment
                results[place] = [Found(*end, scores)]
        if options.print_alignment == "hard":
            special = self.pad, self.eos
            for hypotheses, source in zip(results, sources.cpu(), strict=True):
                for place, one in enumerate(hypotheses):
                    pairs = hard_alignment(one.attention.T, source, one.tokens, *special)
                    hypotheses[place] = one._replace(alignment=pairs)
        return results

    def _limits(self, sources: Tensor, prefix: Tensor) -> tuple[list[int], np.ndarray]:
        """See `StartTracking`; and the sources' lengths, for which the host waits here."""
        lengths = sources.ne(self.pad).sum(dim=1).cpu().numpy()
        positions = min(model.longest_target for model in self.models) - 1
        a, b = self.options.max_len_a, self.options.max_len_b
        if not self.rules.by_sentence:  # the longest source sets the limit of all
            return [min(int(a * sources.size(1) + b), positions)] * len(lengths), lengths
        limits = [min(int(a * n + b), positions) for n in lengths.tolist()]
        forced = prefix.ne(self.pad).sum(dim=1).tolist()  # a prefix may exceed the limit
        if max(forced) > positions:
            raise UserError(
                f"a prefix of {max(forced)} tokens: with the end of sentence the model has "
                f"{positions + 1} positions; give at most {positions}"
            )
        return [*map(max, limits, forced)], lengths


class BeamSearch:
    """The loop of a search over some sentences, whose sources the models have encoded.

    `first` (B, 1) and `prefix` (B, P) come before all else; for `limits` see `StartTracking`.
    """

    def __init__(
        self,
        search: Search,
        ensemble: Ensemble,
        trackers: list[Tracker],
        first: Tensor,
        prefix: Tensor,
        limits: list[int],
    ) -> None:
        self.search, self.options, self.rules = search, search.options, search.rules
        self.ensemble = ensemble
        self.trackers: list[Any] = trackers
        beam, diverse = self.options.beam, self.options.diverse_beam_groups
        self.groups = beam if self.options.sampling else max(diverse, 1)
        self.width, self.device = beam // self.groups, prefix.device
        self.on_host = runs_on_host(self.device)
        self.latest, self.prefix, self.start = first, prefix, first[:1, :, None]
        self.limits = torch.tensor(limits, device=self.device)
        self.least_limit, self.last_step = min(limits), max(limits)
        self.sentences = torch.arange(len(limits), device=self.device)
        self.parents: Any = None  # (B, W), from the first step on
        self.log_p = torch.zeros(first.shape, device=self.device)  # (B, W)
        self.open: Any = None  # `Histories` of B G searches, from the first step on
        self.finished: Any = None  # `FinishedHypotheses`, made with them
        self.any_finished = False
        self.results: list[list[Found]] = [[] for _ in limits]

    def run(self) -> list[list[Found]]:
        """The hypotheses of each sentence, the best score first."""
        for step in range(self.last_step + 1):
            self.is_check_due = self.on_host or step % STEPS_BETWEEN_CHECKS == 0
            attention = self.ensemble.step(self.latest, self.parents)
            for tracker in self.trackers:
                tracker.advance(self.latest, self.parents)
            self._begin_step(attention)
            self._extend_beams(self._choose_candidates(step))
            if self.any_finished or step >= self.least_limit:  # before, no sentence can be done
                self._drop_finished(step)
            if not len(self.sentences):
                break
        return self.results

    def _begin_step(self, attention: Tensor | None) -> None:
        """Start the histories, or add the attention (B, W, S) of the token to be chosen next."""
        searches = len(self.sentences) * self.groups
        if attention is not None:
            shared = self.groups if self.open is None else 1  # at the start, one beam
            attention = attention.repeat_interleave(shared, 0)
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
        elements = CHUNK if self.on_host else DEVICE_CHUNK
        rows = max(1, elements // (self.ensemble.vocabulary * self.latest.size(1)))
        chunks = []
        for begin in range(0, len(self.sentences), rows):
            part = slice(begin, begin + rows)
            log_p = self.ensemble.log_probabilities(part)
            # A NaN fills its whole row.
            if self.is_check_due and log_p[:, :, 0].isnan().any():
                broken = "the model's scores are not numbers (NaN): its weights are broken"
                raise UserError(f"{broken}; use another checkpoint")
            self._constrain(step, part, log_p)
            chunks.append(self._choose(log_p, part))
        joined = chunks[0] if len(chunks) == 1 else map(torch.cat, zip(*chunks, strict=True))
        return Candidates(*(x.flatten(0, 1) for x in joined))

    def _choose(self, log_p: Tensor, part: slice) -> Candidates:
        options, so_far, beam = self.options, self.log_p[part], self.options.beam
        if options.sampling:
            k, p = options.sampling_topk, options.sampling_topp
            return sampled_candidates(log_p, so_far, beam, k, p, self.search.random)
        if self.groups == 1:
            return best_candidates(log_p, so_far, beam)
        is_open = ~self.finished.done.view(-1, self.groups)[part]
        strength = options.diverse_beam_strength
        return diverse_candidates(log_p, so_far, beam, self.groups, strength, is_open)

    def _constrain(self, number: int, part: slice, log_p: Tensor) -> None:
        """Apply the constraints; tokens that the prefix forces are exempt from the options'."""
        options, search, free = self.options, self.search, log_p
        history = self.open.tokens.reshape(*self.latest.shape, number)[part]
        forced = self.prefix[part, number] if number < self.prefix.size(1) else None
        log_p[..., search.pad] = -math.inf
        if options.unkpen:
            log_p[..., search.unk] -= options.unkpen
        if forced is not None:
            free = log_p.clone()
        if forced is None or self.rules.by_sentence:
            # fairseq forbids none of these while any sentence has a prefix
            for token in search.suppressed + [search.eos] * (number < options.min_len):
                free[..., token] = -math.inf
        if options.no_repeat_ngram_size > 0:
            block_repeats(free, history, options.no_repeat_ngram_size)
        if forced is not None:
            torch.where(forced.ne(search.pad)[:, None, None], log_p, free, out=log_p)
        for constrain in (*search.constraints, *self.trackers):
            constrain(log_p, Step(number, self.sentences[part], history, self.start, part))
        if forced is not None or number >= self.least_limit:
            is_last = self.limits[part] <= number
            # padding leaves a sentence free, but where it is what ends one
            only = torch.full_like(self.limits[part], search.pad) if forced is None else forced
            is_bound = only.ne(search.pad) | is_last
            place = only.masked_fill(is_last, search.eos)[:, None, None]
            place = place.expand(-1, log_p.size(1), 1)
            kept = log_p.gather(2, place)
            log_p.masked_fill_(is_bound[:, None, None], -math.inf)
            log_p.scatter_(2, place, kept)

    def _extend_beams(self, candidates: Candidates) -> None:
        """Finish candidates that end, as far as the rules allow; the first w others go on.

        On a GPU some are always taken to end: a check would wait.
        """
        w, ends = self.width, candidates.tokens.eq(self.search.eos)
        log_p, tokens, beams = (x[:, :w] for x in candidates)
        if not self.on_host or ends.any():
            self.any_finished = True
            entered = Candidates(*(x[:, : self.rules.may_end(w)] for x in candidates))
            is_end = ends[:, : entered.tokens.size(1)] & entered.log_probabilities.gt(-torch.inf)
            extended = self.open.extended(entered.beams, entered.tokens, entered.log_probabilities)
            self.finished.enter(is_end & ~self.finished.done[:, None], extended)
            order = ends.byte().argsort(dim=1, stable=True)[:, :w]
            log_p, tokens, beams = (x.gather(1, order) for x in candidates)
            log_p = log_p.masked_fill(tokens.eq(self.search.eos), -torch.inf)  # where too few go on
        self.open = self.open.extended(beams, tokens, log_p)
        shape = (len(self.sentences), -1)
        before = 0 if self.parents is None else w  # at first a sentence has one beam
        first = torch.arange(self.groups, device=self.device)[:, None] * before
        self.parents = (beams.unflatten(0, (-1, self.groups)) + first).reshape(shape)
        self.latest = tokens.reshape(shape).contiguous()
        self.log_p = log_p.reshape(shape)

    def _drop_finished(self, step: int) -> None:
        """Mark the searches that are done; drop finished sentences once there are enough of them.

        On a GPU they are dropped when a check is due.
        """
        best_open = self.log_p.unflatten(1, (self.groups, -1)).amax(dim=2).flatten()
        limits = self.limits.repeat_interleave(self.groups)
        reward = -self.options.unkpen  # of <unk>, if negative
        best = best_open if reward <= 0 else best_open + reward * (limits - step)
        done = self.rules.done(self.finished.rank, best, step, limits)
        self.finished.done |= done | limits.le(step) | best_open.eq(-torch.inf)
        is_last = step == self.last_step
        if not (is_last or self.is_check_due):
            return
        done = self.finished.done.view(-1, self.groups).all(dim=1) | is_last
        if 8 * int(done.sum()) < len(done):
            return
        dropped, kept = done.nonzero()[:, 0], (~done).nonzero()[:, 0]
        hypotheses = iter(self.finished.hypotheses(all_rows(dropped, self.groups)))
        for sentence in self.sentences[dropped].tolist():
            finished = [hypothesis for _ in range(self.groups) for hypothesis in next(hypotheses)]
            if not finished:
                raise UserError(
                    "no output of a sentence meets all constraints; take some back (no repeated "
                    "n-grams, a prefix, allowed tokens, a least length), or raise --max-len-b"
                )
            self.results[sentence] = sorted(finished, key=lambda h: -h.score.item())
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


def block_repeats(log_probabilities: Tensor, history: Tensor, n: int) -> None:
    """Forbid tokens that would repeat an n-gram of the hypothesis; `history` is (b, W, T)."""
    if history.size(2) < n:
        return
    ngrams = history.unfold(2, n, 1)  # (b, W, T - n + 1, n)
    latest = history[:, :, history.size(2) - n + 1 :]  # (b, W, n - 1)
    begun = (ngrams[..., :-1] == latest[:, :, None]).all(-1)
    most = log_probabilities.new_full(begun.shape, math.inf).masked_fill_(begun, -math.inf)
    log_probabilities.scatter_reduce_(2, ngrams[..., -1], most, "amin")


def run_in_threads(work: Callable[[slice], None], shares: list[slice], inside: int) -> None:
    """Run `work` on each share in a thread of its own, a single one here; raise the first error.

    Each has `inside` threads of PyTorch.
    """
    threads = torch.get_num_threads()

    def prepare() -> None:  # both settings are per thread
        torch.set_grad_enabled(False)
        if torch.get_num_threads() != inside:
            torch.set_num_threads(inside)

    try:
        if len(shares) > 1:
            with ThreadPoolExecutor(len(shares), initializer=prepare) as pool:
                list(pool.map(work, shares))
        else:
            prepare()
            work(shares[0])
    finally:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)


def hard_alignment(
    attention: Tensor, source: Tensor, target: Tensor, pad: int, eos: int
) -> list[tuple[int, int]]:
    """Find for each target word (T,) the source word (S,) with the highest attention (T, S).

    Returns pairs (source word, target word) in the order of the target, counted from 0 without
    padding and ends of sentence; none where either side has no word.
    """
    is_source, is_target = (x.ne(pad) & x.ne(eos) for x in (source, target))
    if not bool(is_source.any()) or not bool(is_target.any()):
        return []
    words = attention[is_target][:, is_source].argmax(dim=1)
    return [(word, number) for number, word in enumerate(words.tolist())]
