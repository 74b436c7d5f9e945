"""A search: options in, the hypotheses of a batch out; threads share the batch.

A search consists of many small operations in sequence. Threads inside an operation wait for each
other at its end; threads with their own sentences don't. (`vaswani_tiny`, 1,000 sentences, AVX2:
6.6 s with two such threads, 7.3 s with two threads inside the operations, 11.3 s with one.)

Axes: B sentences, S source length, T target length, W beam width.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from vaswani_plugin.errors import UserError
from vaswani_plugin.processor import runs_on_host
from vaswani_plugin.search.beam_search import (
    BeamSearch,
    Candidates,
    Constraint,
    StartTracking,
    Step,
    Tracker,
    best_candidates,
)
from vaswani_plugin.search.finished import FairseqRules, Found, PaperRules
from vaswani_plugin.search.models import Dictionary, Ensemble, Model, Sources, Start
from vaswani_plugin.search.options import SearchOptions

WORTH_THREADS = 2**25
"""Multiply-adds of a step from which PyTorch's threads gain inside its operations. With fewer, each
operation waits for the other thread about as long as it computes; and where another process keeps
a core busy, it waits for the scheduler. (One sentence, beam 4, two threads over one, AMD with AVX2:
`vaswani_tiny` 1.0 times as fast, base 1.5 times; beside a busy process tiny 0.02 times.)"""
LEAST_SHARE = 8
"""Fewest sentences of a thread."""
MOST_SHARES = 4
"""Greatest number of threads. Python runs one thread at a time; only two were measured."""


class Search:
    """A search over one model, or an ensemble, with fixed options.

    Args:
        models: over the same target dictionary.
        dictionary: of the target.
        options: see `SearchOptions`.
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
        dictionary: Dictionary,
        options: SearchOptions,
        *,
        tokens_to_suppress: tuple[str, ...] = (),
        eos: int | None = None,
        constraints: tuple[Constraint, ...] = (),
        start_tracking: tuple[StartTracking, ...] = (),
        random: torch.Generator | None = None,
    ) -> None:
        for number, model in enumerate(models, start=1):
            own = model.dictionary
            if own is not None and own != dictionary:
                raise UserError(
                    f"model {number} of {len(models)} has another target dictionary ({len(own)} "
                    f"tokens) than the task ({len(dictionary)}); an ensemble needs models that "
                    f"were trained on the same binarized data"
                )
        if not options.sampling:  # as fairseq; padding is never output
            options = replace(options, beam=min(options.beam, len(dictionary) - 1))
        self.models, self.dictionary, self.options = models, dictionary, options
        self.random = random
        # Counted now: fairseq-generate --remove-bpe adds the words of its references later.
        self.vocabulary = len(dictionary)
        self.pad, self.unk = dictionary.pad(), dictionary.unk()
        self.eos = dictionary.eos() if eos is None else eos
        self.suppressed = [dictionary.index(token) for token in tokens_to_suppress]
        self.more, self.start_tracking = list(constraints), start_tracking
        lenpen = 0.0 if options.unnormalized else options.lenpen
        # Diverse groups must all run until they are done: each avoids the others' choices.
        wanted = None if options.diverse_beam_groups > 0 else options.nbest
        is_paper = options.length_penalty == "paper"
        self.rules = PaperRules(lenpen, wanted) if is_paper else FairseqRules(lenpen)
        decoders = [model.decoder for model in models if isinstance(model.decoder, nn.Module)]
        # by which a step multiplies each row
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
        """Search the outputs of a batch.

        Args:
            sources: (B, S), padded on either side.
            more: see `Sources`.
            prefix: tokens that each output must begin with, (B, P), padded on the right.
            start: number of the token before the first one; None: end of sentence.
            prompts: of prompts, in place of sources, the greatest number of new tokens of each, and
                their lengths (B,).

        Returns:
            For each sentence at most W hypotheses, the best score first.

        Raises:
            UserError: when no output meets the constraints, or a model's output is not a number.
        """
        if prefix is None:
            prefix = sources.new_empty(sources.size(0), 0)
        limits, lengths = prompts or self._limits(sources, prefix)
        batch = Sources(sources, lengths, more or {})
        prepared = [model.prepare() for model in self.models]
        starts = [begin for begin, _ in prepared]
        shares = [slice(None)]
        # Threads can share the batch where sentences are independent and Python has little to do.
        if runs_on_host(sources.device) and all(shareable for _, shareable in prepared):
            if not (self.options.sampling or self.more):
                shares = split_among_threads(len(limits))
        trackers = [track(sources, limits) for track in self.start_tracking]
        results: list[list[Found]] = [[] for _ in limits]
        first = self.eos if start is None else start

        def search(share: slice) -> None:
            own = [copy(tracker) for tracker in trackers]
            for tracker in own:
                tracker.keep(torch.arange(len(limits), device=sources.device)[share])
            part = batch.part(share), prefix[share], limits[share]
            results[share] = self._search(starts, *part, first, own)

        # A step multiplies each row with every weight of the decoders.
        work = len(limits) * self.options.beam * self.decoder_weights
        inside = torch.get_num_threads() // len(shares) if work >= WORTH_THREADS else 1
        run_in_threads(search, shares, max(1, inside))
        if prompts is None and not prefix.size(1) and self.rules.by_sentence:
            for place in (lengths < 2).nonzero()[0]:  # of a source without words
                one, scores = results[place][0], torch.zeros(1, device="cpu")
                end = one.tokens[-1:], scores[0], one.attention[..., :1], one.alignment
                results[place] = [Found(*end, scores)]
        if self.options.print_alignment == "hard":
            for found, source in zip(results, sources.cpu(), strict=True):
                for place, one in enumerate(found):
                    given = one.attention.T, source, one.tokens, self.pad, self.eos
                    found[place] = one._replace(alignment=hard_alignment(*given))
        return results

    def _search(
        self,
        starts: list[Start],
        sources: Sources,
        prefix: Tensor,
        limits: list[int],
        first: int,
        trackers: list[Tracker],
    ) -> list[list[Found]]:
        options = self.options
        groups = options.beam if options.sampling else max(options.diverse_beam_groups, 1)
        wanted = options.print_alignment is not None
        members = [start(sources, options.beam, wanted) for start in starts]
        ensemble = Ensemble(members, self.vocabulary, options.temperature, wanted)
        return BeamSearch(
            ensemble,
            self._choose,
            [partial(self._constrain, prefix=prefix, given=prefix.ne(self.pad)), *self.more],
            self.rules,
            beam=options.beam,
            groups=groups,
            limits=limits,
            prefix=prefix,
            start=first,
            eos=self.eos,
            pad=self.pad,
            trackers=trackers,
        ).run()

    def _choose(self, log_p: Tensor, so_far: Tensor, open_groups: Tensor) -> Candidates:
        """See `beam_search.Choose`."""
        options, groups = self.options, open_groups.size(1)
        if not options.sampling and groups == 1:
            return best_candidates(log_p, so_far, options.beam)
        from vaswani_plugin.search.sampling import diverse_candidates, sampled_candidates

        if options.sampling:
            top = options.sampling_topk, options.sampling_topp
            return sampled_candidates(log_p, so_far, options.beam, *top, self.random)
        strength = options.diverse_beam_strength
        return diverse_candidates(log_p, so_far, options.beam, groups, strength, open_groups)

    def _constrain(self, log_p: Tensor, step: Step, prefix: Tensor, given: Tensor) -> None:
        """Apply the options' constraints; tokens that the prefix forces are exempt from them."""
        forbid(log_p, self.pad)
        if self.options.unkpen:
            log_p[..., self.unk] -= self.options.unkpen
        forced, free = None, log_p
        if step.number < prefix.size(1):
            forced = given[step.sentences, step.number, None, None]
            free = log_p.clone()
        if forced is None or self.rules.by_sentence:
            # fairseq forbids none of these while any sentence has a prefix
            for token in self.suppressed + [self.eos] * (step.number < self.options.min_len):
                forbid(free, token)
        if self.options.no_repeat_ngram_size > 0:
            block_repeats(free, step.history, self.options.no_repeat_ngram_size)
        if forced is not None:
            torch.where(forced, log_p, free, out=log_p)

    def _limits(self, sources: Tensor, prefix: Tensor) -> tuple[list[int], np.ndarray]:
        """Greatest numbers of tokens before the end of each sentence, and the sources' lengths.

        The host waits for the device here.
        """
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


def forbid(log_probabilities: Tensor, token: int) -> None:
    """Forbid a token everywhere."""
    log_probabilities.select(-1, token).fill_(-math.inf)


def block_repeats(log_probabilities: Tensor, history: Tensor, n: int) -> None:
    """Forbid tokens that would repeat an n-gram of the hypothesis; `history` is (b, W, T)."""
    if history.size(2) < n:
        return
    ngrams = history.unfold(2, n, 1)  # (b, W, T - n + 1, n)
    latest = history[:, :, history.size(2) - n + 1 :]  # (b, W, n - 1)
    begun = (ngrams[..., :-1] == latest[:, :, None]).all(-1)
    most = log_probabilities.new_full(begun.shape, math.inf).masked_fill_(begun, -math.inf)
    log_probabilities.scatter_reduce_(2, ngrams[..., -1], most, "amin")


def split_among_threads(sentences: int) -> list[slice]:
    """Give each of n threads every n-th sentence, to spread sentences of similar length evenly."""
    count = max(1, min(torch.get_num_threads(), sentences // LEAST_SHARE, MOST_SHARES))
    return [slice(first, None, count) for first in range(count)]


def run_in_threads(work: Callable[[slice], None], shares: list[slice], inside: int) -> None:
    """Run `work` on each share in a thread of its own; a single one runs in the caller's thread.

    Each has `inside` threads of PyTorch. The first error is raised.
    """
    threads = torch.get_num_threads()

    @torch.no_grad()
    def run_share(share: slice) -> None:  # both settings are per thread
        if torch.get_num_threads() != inside:
            torch.set_num_threads(inside)
        work(share)

    try:
        if len(shares) == 1:
            return run_share(shares[0])
        with ThreadPoolExecutor(len(shares)) as pool:
            list(pool.map(run_share, shares))
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
    found = attention[is_target][:, is_source].argmax(dim=1)
    return [(word, number) for number, word in enumerate(found.tolist())]
