"""Options of a search: as fairseq's flags, with the paper's values, and as Python's keywords."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

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


OF_SAMPLING = ("top_k", "top_p", "temperature", "seed")


@dataclass(frozen=True)
class Options:
    """Python's keywords of the methods that search, such as `Translator.translate`.

    Parsers and summarizers don't sample.

    Args:
        beam: width; 1 is greedy; None: the bundle's, else the paper's (completions: greedy).
        nbest: how many hypotheses of each text, at most the beam.
        length_penalty: alpha of ((5 + |Y|) / 6)^alpha, by which log P is divided; 0: none; None:
            the paper's (completions: none).
        batch_tokens: most tokens of texts decoded at once, padding included.
        no_repeat_ngram: no n-gram of so many tokens occurs twice in an output; 0: no limit.
        sampling: draw `nbest` samples instead of searching for the likeliest output.
        top_k: draw among the k likeliest tokens only.
        top_p: draw among the fewest tokens whose probabilities sum to at least p.
        temperature: divides the logits; below 1 makes likely tokens likelier; None: 1.
        seed: makes samples repeatable: the same texts give the same samples. None: a new one.
    """

    beam: int | None = None
    nbest: int = 1
    length_penalty: float | None = None
    batch_tokens: int = 4096
    no_repeat_ngram: int = 0
    sampling: bool = False
    top_k: int | None = None
    top_p: float | None = None
    temperature: float | None = None
    seed: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any], samples: bool = True) -> Self:
        """The options of these keywords; without `samples` those of sampling are unknown.

        Raises:
            TypeError: there is none of a name; lists those that there are.
        """
        known = [option.name for option in fields(cls)]
        if not samples:
            known = [name for name in known if name not in ("sampling", *OF_SAMPLING)]
        for name in given:
            if name not in known:
                raise TypeError(f"{name}: no option of that name; there are {', '.join(known)}")
        return cls(**given)

    def search(self, beam: int, lenpen: float, **more: Any) -> SearchOptions:
        """The options of the search.

        Args:
            beam, lenpen: where none is chosen.
            more: of `SearchOptions`.

        Raises:
            UserError: a value is out of range or contradicts another one; names it.
        """
        for name in OF_SAMPLING:
            if getattr(self, name) is not None and not self.sampling:
                raise UserError(f"{name} goes with sampling")
        for name in ("nbest", "beam", "top_k"):
            if getattr(self, name) is not None:
                require_at_least_1(name, getattr(self, name))
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UserError(f"top_p {self.top_p}: must be above 0 and at most 1")
        if None not in (self.top_k, self.top_p):
            raise UserError("top_k and top_p exclude each other; drop one")
        if self.sampling and (self.beam or 1) > 1:
            raise UserError("beam and sampling exclude each other")
        width = self.nbest if self.sampling else self.beam or beam
        if self.nbest > width:
            raise UserError(
                f"{self.nbest} hypotheses: a beam of {width} finds no more than {width}; give "
                f"beam {self.nbest}, or sampling"
            )
        return SearchOptions(
            width,
            self.nbest,
            lenpen if self.length_penalty is None else self.length_penalty,
            no_repeat_ngram_size=self.no_repeat_ngram,
            sampling=self.sampling,
            sampling_topk=-1 if self.top_k is None else self.top_k,
            sampling_topp=-1.0 if self.top_p is None else self.top_p,
            temperature=1.0 if self.temperature is None else self.temperature,
            **more,
        )


def require_at_least_1(name: str, value: int) -> None:
    """Refuse a whole number below 1; the UserError names the option."""
    if value < 1:
        raise UserError(f"{name} {value}: must be at least 1")


def require_choice(name: str, value: str, *choices: str) -> None:
    """Refuse a word that is none of the choices; the UserError names the option and them."""
    if value not in choices:
        raise UserError(f"{name} is {value!r}; it must be {' or '.join(choices)}")
