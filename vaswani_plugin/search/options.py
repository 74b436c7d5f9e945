"""Options of a search (section 6.1): the paper's values, fairseq's names, Python's keywords."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypedDict, TypeVar

from vaswani_plugin.errors import UserError, check_ranges

Class = TypeVar("Class")
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
        if self.max_len_a == 0 and self.min_len > self.max_len_b:
            raise UserError(f"--min-len {self.min_len} is above --max-len-b {self.max_len_b}")
        if self.sampling and (truncations > 1 or self.diverse_beam_groups > 0):
            raise UserError("sampling takes top-k or top-p, and no diverse groups; drop one")
        if self.diverse_beam_groups > 0 and self.beam % self.diverse_beam_groups:
            raise UserError(
                f"--beam {self.beam} can't be shared by --diverse-beam-groups "
                f"{self.diverse_beam_groups}; make it a multiple"
            )


@dataclass(frozen=True)
class Options:
    """Python's keywords of the methods that search, such as `Translator.translate`.

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

    def search(self, beam: int, lenpen: float, **others: Any) -> SearchOptions:
        """The options of the search; `beam` and `lenpen` are taken where none is chosen.

        Raises:
            UserError: a value contradicts another one; names it.
        """
        if self.sampling and (self.beam or 1) > 1:
            raise UserError("beam and sampling exclude each other")
        if self.seed is not None and not self.sampling:
            raise UserError("a seed goes with sampling")
        width = self.nbest if self.sampling else beam if self.beam is None else self.beam
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
            **others,
        )


class Keywords(TypedDict, total=False):
    """The fields of `Options`, for type checkers and editors."""

    beam: int | None
    nbest: int
    length_penalty: float | None
    batch_tokens: int
    no_repeat_ngram: int
    sampling: bool
    top_k: int | None
    top_p: float | None
    temperature: float | None
    seed: int | None


def takes_options(*methods: str, **defaults: Any) -> Callable[[type[Class]], type[Class]]:
    """Decorates a class; each of its methods passes **options to the next, the last to `Options`.

    `help` then shows every option and its default, and a misspelt one is named with a close one.
    `defaults` are the class's own.
    """

    def complete(cls: type[Class]) -> type[Class]:
        kept = inspect.signature(Options).parameters.values()
        added = [p.replace(kind=p.KEYWORD_ONLY) for p in kept]
        added = [p.replace(default=defaults.get(p.name, p.default)) for p in added]
        for name in reversed(methods):
            method = getattr(cls, name)
            *named, _ = inspect.signature(method).parameters.values()
            known = {p.name: p for p in (*named, *added)}
            added = [p for p in known.values() if p.kind is p.KEYWORD_ONLY]
            signature = inspect.signature(method).replace(parameters=list(known.values()))
            setattr(cls, name, _checked(method, signature))
        return cls

    return complete


def _checked(method: Callable[..., Any], signature: inspect.Signature) -> Callable[..., Any]:
    @wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        check_ranges(**options)
        return method(*arguments, **options)

    call.__dict__["__signature__"] = signature
    return call
