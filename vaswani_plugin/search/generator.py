"""Beam search with the paper's score and stopping rule (section 6.1).

fairseq's generator grows the beams; here hypotheses are scored by
log P(Y|X) / ((5 + |Y|)/6)^alpha, the best `beam` of all finished ones are kept, and a
sentence is done when no unfinished hypothesis can enter that list any more.

Axes: B sentences still open, W beam width, T tokens so far.
"""

import math

from fairseq.data import Dictionary
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator, SequenceGeneratorWithAlignment
from torch import Tensor

from vaswani_plugin.search.length_penalty import best_reachable_score, length_penalty

Hypothesis = dict[str, Tensor]


class OwnLimitBeamSearch(BeamSearch):
    """Beam search that ends each sentence at the limit of its own length.

    fairseq's generator takes the limit from the longest source of the batch, so that a
    sentence's translation would depend on its neighbours.

    Args:
        dictionary: the target dictionary.
        max_len_a: limit per source token.
        max_len_b: added to the limit.
    """

    def __init__(self, dictionary: Dictionary, max_len_a: float, max_len_b: float) -> None:
        super().__init__(dictionary)
        self.needs_src_lengths = True
        self.max_len_a = max_len_a
        self.max_len_b = max_len_b

    def limit(self, src_lengths: Tensor) -> Tensor:
        """Greatest number of output tokens, end of sentence not counted, a source."""
        return (self.max_len_a * src_lengths.double() + self.max_len_b).long()

    def step(self, step: int, lprobs: Tensor, *args, **kwargs) -> tuple[Tensor, Tensor, Tensor]:
        """fairseq's step over lprobs (B, W, V), where what reached its limit can only end.

        A forced prefix that goes past the limit forbids the end, and is followed.
        """
        may_end = lprobs[:, :, self.eos].ne(-math.inf).any(dim=1)
        ending = self.limit(self.src_lengths).le(step) & may_end
        if ending.any():
            end_only = lprobs[ending]
            end_only[:, :, : self.eos] = -math.inf
            end_only[:, :, self.eos + 1 :] = -math.inf
            lprobs[ending] = end_only
        return super().step(step, lprobs, *args, **kwargs)


class PaperScoring:
    """Mixed into a fairseq generator: replaces how finished hypotheses are kept."""

    def __init__(self, models, tgt_dict: Dictionary, **kwargs) -> None:
        super().__init__(models, tgt_dict, **kwargs)
        if type(self.search) is BeamSearch:  # other strategies keep the limit of the batch
            self.search = OwnLimitBeamSearch(tgt_dict, self.max_len_a, self.max_len_b)
            self.should_set_src_lengths = True

    def finalize_hypos(
        self,
        step: int,
        bbsz_idx: Tensor,
        eos_scores: Tensor,
        tokens: Tensor,
        scores: Tensor,
        finalized: list[list[Hypothesis]],
        finished: list[bool],
        beam_size: int,
        attn: Tensor | None,
        src_lengths: Tensor,
        max_len: int,
    ) -> list[int]:
        """Enter newly ended hypotheses into their sentences' lists.

        Args:
            step: tokens before this one; a hypothesis ending now has step + 1 tokens.
            bbsz_idx: rows of `tokens` that end now.
            eos_scores: log P of these rows, the end included.
            tokens: (B W, ...), column 0 is the start.
            scores: (B W, ...), cumulative log P a position.
            finalized: the finished hypotheses of every sentence of the batch.
            finished: which sentences of the batch are done.
            beam_size: W.
            attn: (B W, S, ...) attention to the source, if any.
            src_lengths: lengths of the open sentences.
            max_len: longest output of the batch, without end of sentence.

        Returns:
            Numbers, among the open sentences, of those that are done now.
        """
        open_sentences = [number for number, done in enumerate(finished) if not done]
        touched = set()
        for row, log_probability in zip(bbsz_idx.tolist(), eos_scores.tolist(), strict=True):
            place = row // beam_size
            touched.add(place)
            if self.match_source_len and step > int(src_lengths[place]):
                log_probability = -math.inf
            hypothesis = self._hypothesis(step, row, log_probability, tokens, scores, attn)
            kept = finalized[open_sentences[place]]
            kept.append(hypothesis)
            kept.sort(key=lambda h: -float(h["score"]))
            del kept[beam_size:]
        done = []
        for place in sorted(touched):
            kept = finalized[open_sentences[place]]
            limit = self._limit(src_lengths[place], max_len)
            if step >= limit or self._nothing_better(step, place, kept, scores, beam_size, limit):
                finished[open_sentences[place]] = True
                done.append(place)
        return done

    def _limit(self, src_length: Tensor, max_len: int) -> int:
        if isinstance(self.search, OwnLimitBeamSearch):
            return min(int(self.search.limit(src_length)), max_len)
        return max_len

    def _hypothesis(
        self,
        step: int,
        row: int,
        log_probability: float,
        tokens: Tensor,
        scores: Tensor,
        attn: Tensor | None,
    ) -> Hypothesis:
        ended = tokens[row, 1 : step + 2].clone()
        ended[step] = self.eos
        cumulative = scores[row, : step + 1].clone()
        cumulative[step] = log_probability
        positional = cumulative.clone()
        positional[1:] -= cumulative[:-1]
        score = log_probability
        if self.normalize_scores:
            score = log_probability / length_penalty(step + 1, self.len_penalty)
        return {
            "tokens": ended,
            "score": scores.new_tensor(score),
            "attention": tokens.new_empty(0)
            if attn is None
            else attn[row, :, 1 : step + 2].clone(),
            "alignment": tokens.new_empty(0),
            "positional_scores": positional,
        }

    def _nothing_better(
        self,
        step: int,
        place: int,
        kept: list[Hypothesis],
        scores: Tensor,
        beam_size: int,
        limit: int,
    ) -> bool:
        """The authors' stopping rule: the best still open can't beat the worst kept.

        A beam of 1 is greedy, as in the authors' code: its first end is the end.
        """
        if beam_size == 1:
            return True
        if len(kept) < beam_size or step == 0:
            return False
        worst_kept = float(kept[-1]["score"])
        rows = slice(place * beam_size, (place + 1) * beam_size)
        best_open = float(scores[rows, step - 1].max())
        alpha = self.len_penalty if self.normalize_scores else 0.0
        return worst_kept >= best_reachable_score(best_open, step + 2, limit + 1, alpha)


class PaperSequenceGenerator(PaperScoring, SequenceGenerator):
    """fairseq's beam search with the paper's score and stopping rule."""


class PaperSequenceGeneratorWithAlignment(PaperScoring, SequenceGeneratorWithAlignment):
    """The same, for `--print-alignment`."""
