"""The beam search that fairseq's commands call, and the hypotheses that they print.

Axes: B sentences, S source length, T target length, W beam width.
"""

from collections.abc import Callable
from copy import copy
from functools import partial

import numpy as np
import torch
from torch import Tensor

from vaswani_plugin.devices import runs_on_host
from vaswani_plugin.errors import UserError
from vaswani_plugin.search.alignment import hard_alignment, soft_alignment
from vaswani_plugin.search.beam_search import BeamSearch, Choose
from vaswani_plugin.search.constraints import (
    Constraint,
    StartTracking,
    Step,
    Tracker,
    allow_only,
    block_repeats,
    forbid,
)
from vaswani_plugin.search.dictionary import Dictionary, require_one_dictionary
from vaswani_plugin.search.hypotheses import Hypothesis
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.search.packing import Packed, PackedWeights
from vaswani_plugin.search.rules import FairseqRules, PaperRules
from vaswani_plugin.search.selection import (
    Candidates,
    best_candidates,
    diverse_candidates,
    sampled_candidates,
)
from vaswani_plugin.search.stepping import Ensemble
from vaswani_plugin.search.threads import run_in_threads, split_among_threads, threads_inside


class BeamSearchGenerator:
    """The sequence generator of `fairseq-generate` and `fairseq-interactive`.

    Args:
        models: an ensemble of encoder-decoders over the same dictionaries.
        dictionary: of the target.
        options: see `SearchOptions`.
        tokens_to_suppress: words that are never output.
        symbols_to_strip_from_output: numbers of tokens that fairseq shouldn't print.
        eos: number of the end of sentence, if not the dictionary's.
        prefix_allowed_tokens_fn: (sentence, tokens so far) -> tokens that may come next.
        constraints: further constraints on the next token.
        start_tracking: functions that make the trackers of a batch.
        weights: packed weights, shared by generators over the same models; None: new ones.
        with_attention: whether hypotheses include their attention to the source, which alignments
            need; False saves time in our models.
        random: draws the samples; None: PyTorch's own generator of the device.

    Raises:
        UserError: when a beam exceeds the vocabulary (samples may), or the models' dictionaries
            differ.
    """

    def __init__(
        self,
        models: list,
        dictionary: Dictionary,
        options: SearchOptions,
        *,
        tokens_to_suppress: tuple[str, ...] = (),
        symbols_to_strip_from_output: set[int] | None = None,
        eos: int | None = None,
        prefix_allowed_tokens_fn: Callable[[int, Tensor], list[int]] | None = None,
        constraints: tuple[Constraint, ...] = (),
        start_tracking: tuple[StartTracking, ...] = (),
        weights: PackedWeights | None = None,
        with_attention: bool = True,
        random: torch.Generator | None = None,
    ) -> None:
        require_one_dictionary(models, dictionary)
        if options.beam > len(dictionary) - 1 and not options.sampling:
            raise UserError(
                f"--beam is {options.beam} and the target dictionary has {len(dictionary)} tokens; "
                f"give at most {len(dictionary) - 1}: padding is never output"
            )
        self.models, self.dictionary, self.options = models, dictionary, options
        self.weights = PackedWeights() if weights is None else weights
        self.with_attention, self.random = with_attention, random
        # Counted now: fairseq-generate --remove-bpe adds the words of its references later.
        self.vocabulary = len(dictionary)
        self.pad, self.unk = dictionary.pad(), dictionary.unk()
        self.eos = dictionary.eos() if eos is None else eos
        self.beam_size = options.beam
        self.symbols_to_strip_from_output = (symbols_to_strip_from_output or set()) | {self.eos}
        self.suppressed = [dictionary.index(token) for token in tokens_to_suppress]
        self.more, self.start_tracking = list(constraints), start_tracking
        if prefix_allowed_tokens_fn is not None:
            self.more.append(allow_only(prefix_allowed_tokens_fn))
        lenpen = 0.0 if options.unnormalized else options.lenpen
        if options.length_penalty == "paper":
            # Diverse groups must all run until they are done: each avoids the others' choices.
            self.rules = PaperRules(
                lenpen, None if options.diverse_beam_groups > 0 else options.nbest
            )
        else:
            self.rules = FairseqRules(lenpen)
        for model in models:
            model.eval()
        decoders = [m.decoder for m in models if isinstance(m.decoder, torch.nn.Module)]
        self.decoder_weights = sum(p.numel() for each in decoders for p in each.parameters())

    @torch.no_grad()
    def generate(
        self,
        models: list,
        sample: dict,
        prefix_tokens: Tensor | None = None,
        constraints: None = None,
        bos_token: int | None = None,
    ) -> list[list[Hypothesis]]:
        """Translate a batch.

        Args:
            models: unused; the constructor's models translate.
            sample: fairseq's batch; its `net_input` has `src_tokens` (B, S).
            prefix_tokens: tokens that each output must begin with, (B, P), padded on the right.
            constraints: must be None; only fairseq's own generator supports them.
            bos_token: number of the token before the first one; default: end of sentence.

        Returns:
            For each sentence at most W hypotheses, the best score first: `tokens` (T,) with the
            end of sentence, `score` and `positional_scores` (T,) in natural logarithms,
            `attention` (S, T) and `alignment`, which are empty unless asked for.

        Raises:
            UserError: when a source is empty or too long, the limits or the constraints contradict
                each other, or a model's output is not a number.
        """
        if constraints is not None:
            raise UserError("constraints: our search has none; take fairseq's own generator")
        net_input = {k: v for k, v in sample["net_input"].items() if k != "prev_output_tokens"}
        sources = net_input["src_tokens"]
        if prefix_tokens is None:
            prefix_tokens = sources.new_empty(sources.size(0), 0)
        limits, lengths = self._limits(sources, prefix_tokens)
        start = self.eos if bos_token is None else bos_token
        packed = [self.weights.of(model.decoder) for model in self.models]
        shares = (
            split_among_threads(len(limits))
            if self._is_shareable(sources, packed)
            else [slice(None)]
        )
        trackers = [track(sources, limits) for track in self.start_tracking]
        results: list[list[Hypothesis]] = [[] for _ in limits]

        def search(share: slice) -> None:
            rows = {k: v[share] if torch.is_tensor(v) else v for k, v in net_input.items()}
            own = [copy(tracker) for tracker in trackers]
            for tracker in own:
                tracker.keep(torch.arange(len(limits), device=sources.device)[share])
            known = None if lengths is None else lengths[share]
            part = prefix_tokens[share], limits[share], known
            results[share] = self._search(rows, packed, *part, start, own)

        # A step multiplies each row with every weight of the decoders.
        with threads_inside(len(limits) * self.options.beam * self.decoder_weights):
            run_in_threads(search, shares)
        if not self.rules.by_sentence:
            self._repeat_given(results, prefix_tokens)
        if self.options.print_alignment:
            self._align(results, sources.cpu())
        return results

    def _is_shareable(self, sources: Tensor, packed: list[Packed | None]) -> bool:
        """Return whether threads can share the batch: sentences independent, weights packed."""
        return (
            runs_on_host(sources.device)
            and not (self.options.sampling or self.more)
            and None not in packed
        )

    def _search(
        self,
        net_input: dict[str, Tensor],
        packed: list[Packed | None],
        prefix: Tensor,
        limits: list[int],
        known_lengths: np.ndarray | None,
        start: int,
        trackers: list[Tracker],
    ) -> list[list[Hypothesis]]:
        options = self.options
        groups = options.beam if options.sampling else max(options.diverse_beam_groups, 1)
        ensemble = Ensemble(
            self.models,
            packed,
            net_input,
            options.beam,
            options.temperature,
            self.vocabulary,
            self.with_attention,
            known_lengths,
        )
        return BeamSearch(
            ensemble,
            self._choose(groups),
            self._constraints(prefix),
            self.rules,
            beam=options.beam,
            groups=groups,
            limits=limits,
            prefix=prefix,
            start=start,
            eos=self.eos,
            pad=self.pad,
            trackers=trackers,
        ).run()

    def _choose(self, groups: int) -> Choose:
        options = self.options
        if options.sampling:
            return self._sample
        if groups > 1:
            strength = options.diverse_beam_strength
            return lambda log_p, so_far, open_groups: diverse_candidates(
                log_p, so_far, options.beam, groups, strength, open_groups
            )
        return lambda log_p, so_far, _: best_candidates(log_p, so_far, options.beam)

    def _sample(self, log_p: Tensor, so_far: Tensor, open_groups: Tensor) -> Candidates:
        top_k, top_p = self.options.sampling_topk, self.options.sampling_topp
        return sampled_candidates(log_p, so_far, self.options.beam, top_k, top_p, self.random)

    def _constraints(self, prefix: Tensor) -> list[Constraint]:
        given = prefix.ne(self.pad)
        return [partial(self._constrain, prefix=prefix, given=given), *self.more]

    def _constrain(self, log_p: Tensor, step: Step, prefix: Tensor, given: Tensor) -> None:
        """Apply the options' constraints; tokens that the prefix forces are exempt from them."""
        forbid(log_p, self.pad)
        if self.options.unkpen:
            log_p[..., self.unk] -= self.options.unkpen
        forbidden = self.suppressed + [self.eos] * (step.number < self.options.min_len)
        if step.number >= prefix.size(1):
            for token in forbidden:
                forbid(log_p, token)
        elif self.rules.by_sentence:  # fairseq forbids nothing while any sentence has a prefix
            free = ~given[step.sentences, step.number, None]
            for token in forbidden:
                log_p[..., token].masked_fill_(free, -torch.inf)
        size = self.options.no_repeat_ngram_size
        if size > 0 and step.number < prefix.size(1):
            forced = given[step.sentences, step.number, None, None]
            free = log_p.clone()
            block_repeats(free, step.history(), size)
            torch.where(forced, log_p, free, out=log_p)
        elif size > 0:
            block_repeats(log_p, step.history(), size)

    def _limits(self, sources: Tensor, prefix: Tensor) -> tuple[list[int], np.ndarray | None]:
        """Compute the greatest number of tokens before the end of each sentence.

        Returns:
            The numbers, and the lengths of the sources (B,), which the host waits for here.
        """
        known_lengths = sources.ne(self.pad).sum(dim=1).cpu().numpy()
        if not known_lengths.all():
            raise UserError(
                f"sentence {known_lengths.argmin()} of the batch is empty: not even its end is "
                f"there; remove it from the data"
            )
        positions = min(model.max_decoder_positions() for model in self.models) - 1
        options = self.options
        lengths = known_lengths
        if not self.rules.by_sentence:
            lengths = np.full_like(lengths, sources.size(1))
        wanted = [int(options.max_len_a * n + options.max_len_b) for n in lengths.tolist()]
        limits = [min(n, positions) for n in wanted]
        if min(limits) < options.min_len:
            raise UserError(
                f"--min-len {options.min_len} exceeds the greatest length of an output, "
                f"{min(limits)}; lower it, or raise --max-len-a or --max-len-b"
            )
        if self.rules.by_sentence:  # a prefix may exceed the limit
            forced = prefix.ne(self.pad).sum(dim=1).tolist()
            limits = [max(limit, given) for limit, given in zip(limits, forced, strict=True)]
            if max(limits) > positions:
                raise UserError(
                    f"a prefix has {max(limits)} tokens and the model {positions + 1} positions, "
                    f"the end of sentence included; shorten the prefix"
                )
        return limits, known_lengths

    def _repeat_given(self, results: list[list[Hypothesis]], prefix: Tensor) -> None:
        """Copy the hypothesis of a prefix with an end of sentence to all beams, as fairseq does."""
        for row, ended in enumerate(prefix.eq(self.eos).any(dim=1).tolist()):
            if ended:
                copies = range(self.options.beam)
                one = results[row][0]
                results[row] = [{k: v.clone() for k, v in one.items()} for _ in copies]

    def _align(self, results: list[list[Hypothesis]], sources: Tensor) -> None:
        align = soft_alignment if self.options.print_alignment == "soft" else hard_alignment
        for source, hypotheses in zip(sources, results, strict=True):
            for hypothesis in hypotheses:
                weights, tokens = hypothesis["attention"].T, hypothesis["tokens"]
                hypothesis["alignment"] = align(weights, source, tokens, self.pad, self.eos)
