"""The options of a search, and the paper's values (sections 6.1 and 6.3), by fairseq's flags."""

import math
from dataclasses import dataclass
from typing import Any

from vaswani_plugin.errors import UserError

PAPER_DECODING: dict[str, Any] = {"beam": 4, "lenpen": 0.6, "max_len_a": 1.0, "max_len_b": 50}
"""Section 6.1: beam of 4, alpha 0.6, output at most 50 tokens longer than the input."""
PARSER_DECODING: dict[str, Any] = {"beam": 21, "lenpen": 0.3, "max_len_a": 1.0, "max_len_b": 300}
"""Section 6.3: beam of 21, alpha 0.3, output at most 300 tokens longer than the input."""
MAX_NEW_TOKENS = 100
"""Ours: greatest number of new tokens of a completion, or half of the model's positions if less."""


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
        """Check the values.

        Raises:
            UserError: when values are out of range or contradict each other.
        """
        if self.beam < 1:
            raise UserError(f"--beam is {self.beam}; it must be at least 1")
        for name in (
            *("lenpen", "max_len_a", "unkpen", "temperature", "sampling_topp"),
            "diverse_beam_strength",
        ):
            if not math.isfinite(value := getattr(self, name)):
                flag = f"--{name.replace('_', '-')}"
                raise UserError(f"{flag} is {value}; it must be a finite number")
        if self.temperature <= 0:
            raise UserError(f"--temperature is {self.temperature}; it must be greater than 0")
        if not self.sampling and max(self.sampling_topk, self.sampling_topp) > 0:
            raise UserError("--sampling-topk and --sampling-topp need --sampling")
        if min(self.sampling_topk, self.sampling_topp) > 0:
            raise UserError("--sampling-topk and --sampling-topp exclude each other; drop one")
        if self.sampling and self.diverse_beam_groups > 0:
            raise UserError("--sampling and --diverse-beam-groups exclude each other; drop one")
        if self.diverse_beam_groups > 0 and self.beam % self.diverse_beam_groups:
            raise UserError(
                f"--beam {self.beam} can't be shared by --diverse-beam-groups "
                f"{self.diverse_beam_groups}; make it a multiple"
            )
