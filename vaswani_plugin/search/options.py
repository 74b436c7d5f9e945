"""Options of a search (section 6.1): the paper's values, fairseq's flags, Python's keywords."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import wraps
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar

from vaswani_plugin.errors import UserError

Class = TypeVar("Class")

PAPER_DECODING: dict[str, Any] = {"beam": 4, "lenpen": 0.6, "max_len_a": 1.0, "max_len_b": 50}
"""Section 6.1: beam of 4, alpha 0.6, output at most 50 tokens longer than the input."""
PARSER_DECODING: dict[str, Any] = {"beam": 21, "lenpen": 0.3, "max_len_a": 1.0, "max_len_b": 300}
"""Section 6.3: beam of 21, alpha 0.3, output at most 300 tokens longer than the input."""


LARGEST = 10**20
"""The size of every number stays below it, so that no product of a few is infinite."""


class Range(NamedTuple):
    """What a number may be; `rule` completes "it must be"."""

    kind: type[int] | type[float]
    accepts: Callable[[Any], bool] = lambda value: True
    rule: str = ""

    def refusal(self, value: Any) -> str | None:
        """What a value must be, where it is not."""
        if isinstance(value, bool) or not isinstance(value, Integral if self.kind is int else Real):
            return "a whole number" if self.kind is int else "a number"
        if not abs(value) < LARGEST:
            return "a finite number, below 1e20"
        return None if self.accepts(value) else self.rule


COUNT = Range(int, lambda n: n >= 1, "at least 1")
NATURAL = Range(int, lambda n: n >= 0, "at least 0")
PROBABILITY = Range(float, lambda p: 0 < p <= 1, "above 0 and at most 1")
EXPONENT = Range(float, lambda x: -10 <= x <= 10, "from -10 to 10")
TEMPERATURE = Range(float, lambda t: 1e-4 <= t <= 1e4, "from 0.0001 to 10000")
THREADS = Range(int, lambda n: 1 <= n <= 1024, "from 1 to 1024")
_COUNTS = "beam nbest samples batch_tokens buffer top_k sampling_topk max_new_tokens max_length"
_NATURALS = "no_repeat_ngram no_repeat_ngram_size min_new_tokens context_window alternatives"
RANGES: dict[str, Range] = {
    **dict.fromkeys((_COUNTS + " tokens_per_sample").split(), COUNT),
    **dict.fromkeys(_NATURALS.split(), NATURAL),
    **{"top_p": PROBABILITY, "sampling_topp": PROBABILITY, "temperature": TEMPERATURE},
    **{"lenpen": EXPONENT, "length_penalty": EXPONENT, "threads": THREADS, "seed": Range(int)},
}
"""Of the options of Python, the command line, HTTP and fairseq, by their names there."""


def check_ranges(**options: Any) -> None:
    """Refuse an option out of its range, if it has one; None is the default of any.

    Raises:
        UserError: names the option, its value and its range.
    """
    for name, value in options.items():
        if name in RANGES and value is not None and (rule := RANGES[name].refusal(value)):
            raise UserError(f"{name} is {value!r}; it must be {rule}")


def length_penalty(length: Any, alpha: float) -> Any:
    """Wu et al. 2016, Eq. 14, used in section 6.1: lp(Y) = ((5 + |Y|) / 6)^alpha.

    Args:
        length: |Y|, tokens of the hypothesis, end of sentence included: a number or a tensor.
        alpha: the exponent; 0 ranks by probability alone; the paper uses 0.6.

    Returns:
        The divisor, of the same kind; 1 at length 1.
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
        given = vars(self).items()
        check_ranges(**{name: value for name, value in given if value != unset.get(name)})
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

    def search(self, beam: int, lenpen: float, **more: Any) -> SearchOptions:
        """The options of the search; `beam` and `lenpen` are taken where none is chosen.

        Raises:
            UserError: a value contradicts another one; names it.
        """
        if self.sampling and (self.beam or 1) > 1:
            raise UserError("beam and sampling exclude each other")
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
            **more,
        )


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
            *own, _ = inspect.signature(method).parameters.values()
            known = {p.name: p for p in (*own, *added)}
            added = [p for p in known.values() if p.kind is p.KEYWORD_ONLY]
            signature = inspect.signature(method).replace(parameters=list(known.values()))
            setattr(cls, name, _checked(method, signature))
        return cls

    return complete


def _checked(method: Callable, signature: inspect.Signature) -> Callable:
    @wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        for name in options.keys() - signature.parameters.keys():
            close = "".join(get_close_matches(name, signature.parameters, 1))
            text = f"{method.__qualname__}() got an unexpected keyword argument {name!r}"
            raise TypeError(f"{text}; did you mean {close}?" if close else text)
        check_ranges(**options)
        return method(*arguments, **options)

    call.__dict__["__signature__"] = signature
    return call


def require_choice(name: str, value: str, *choices: str) -> None:
    """Refuse a word that is none of the choices; the UserError names the option and them."""
    if value not in choices:
        raise UserError(f"{name} is {value!r}; it must be {' or '.join(choices)}")
