"""Beam search with the paper's score and stopping rule (section 6.1).

fairseq's generator grows the beams; here hypotheses are scored by
log P(Y|X) / ((5 + |Y|)/6)^alpha, the best `beam` of all finished ones are kept, and a
sentence is done when no unfinished hypothesis can enter that list any more.

Axes: B sentences still open, W beam width, T tokens so far.
"""

import math

from fairseq.sequence_generator import SequenceGenerator, SequenceGeneratorWithAlignment
from torch import Tensor

from vaswani_plugin.search.length_penalty import best_reachable_score, length_penalty

Hypothesis = dict[str, Tensor]


class PaperScoring:
    """Mixed into a fairseq generator: replaces how finished hypotheses are kept."""

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
            max_len: longest output, without end of sentence.

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
            if step == max_len or self._nothing_better(
                step, place, kept, scores, beam_size, max_len
            ):
                finished[open_sentences[place]] = True
                done.append(place)
        return done

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
        max_len: int,
    ) -> bool:
        """The authors' stopping rule: the best still open can't beat the worst kept."""
        if len(kept) < beam_size:
            return False
        worst_kept = float(kept[-1]["score"])
        if step == 0:
            return worst_kept >= 0
        rows = slice(place * beam_size, (place + 1) * beam_size)
        best_open = float(scores[rows, step - 1].max())
        alpha = self.len_penalty if self.normalize_scores else 0.0
        return worst_kept >= best_reachable_score(best_open, step + 2, max_len + 1, alpha)


class PaperSequenceGenerator(PaperScoring, SequenceGenerator):
    """fairseq's beam search with the paper's score and stopping rule."""


class PaperSequenceGeneratorWithAlignment(PaperScoring, SequenceGeneratorWithAlignment):
    """The same, for `--print-alignment`."""
