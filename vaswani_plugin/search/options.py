"""Options of a search (section 6.1): the paper's values under fairseq's names."""

from dataclasses import dataclass
from typing import Any

from vaswani_plugin.errors import UserError, check_ranges

PAPER_DECODING: dict[str, Any] = {"beam": 4, "lenpen": 0.6, "max_len_a": 1.0, "max_len_b": 50}
"""Section 6.1: beam of 4, alpha 0.6, output at most 50 tokens longer than the input."""
PARSER_DECODING: dict[str, Any] = {"beam": 21, "lenpen": 0.3, "max_len_a": 1.0, "max_len_b": 300}
"""Section 6.3: beam of 21, alpha 0.3, output at most 300 tokens longer than the input."""


def length_penalty(length: Any, alpha: float) -> Any:
    """Wu et al. 2016, Eq. 14, used in section 6.1: lp(Y) = ((5 + |Y|) / 6)^alpha.

    `length` is |Y|, tokens of the hypothesis, end of sentence included: a number or a tensor. With
    an `alpha` of 0 probability alone ranks; the paper uses 0.6. Returns the divisor; 1 at length 1.
    """
    return ((5 + length) / 6) ** alpha


@dataclass(frozen=True)
class SearchOptions:
    """The generation options that the search supports, under fairseq's names.

    Lengths are in tokens without the end of sentence, except the source's length, which `max_len_a`
    multiplies: it includes the end. `length_penalty` is `paper` or `fairseq`. Only the first
    `nbest` hypotheses are guaranteed to be the best of the search; None: all of them are.
    """

    beam: int = 4
    nbest: int | None = None
    lenpen: float = 0.6
    length_penalty: str = "paper"
    unnormalized: bool = False
    max_len_a: float = 1.0
    max_len_b: int = 50
    min_len: int = 1
    unkpen: float = 0.0
    temperature: float = 1.0
    no_repeat_ngram_size: int = 0
    sampling: bool = False
    sampling_topk: int = -1
    sampling_topp: float = -1.0
    diverse_beam_groups: int = -1
    diverse_beam_strength: float = 0.5
    print_alignment: str | None = None

    def __post_init__(self) -> None:
        """Refuse what would be ignored in silence.

        Raises:
            UserError: a value is out of its range, or options contradict each other.
        """
        unset = {"sampling_topk": -1, "sampling_topp": -1, "length_penalty": self.length_penalty}
        check_ranges(**{k: v for k, v in vars(self).items() if v != unset.get(k)})
        truncations = sum(most > 0 for most in (self.sampling_topk, self.sampling_topp))
        if truncations and not self.sampling:
            raise UserError("top-k and top-p go with sampling")
        if self.sampling and (truncations > 1 or self.diverse_beam_groups > 0):
            raise UserError("sampling takes top-k or top-p, and no diverse groups; drop one")
        if self.diverse_beam_groups > 0 and self.beam % self.diverse_beam_groups:
            raise UserError(
                f"--beam {self.beam} can't be shared by --diverse-beam-groups "
                f"{self.diverse_beam_groups}; make it a multiple"
            )
