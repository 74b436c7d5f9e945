"""The options of every search of translating, completing, summarizing and parsing, as keywords."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from vaswani_plugin.errors import UserError
from vaswani_plugin.search.options import SearchOptions


@dataclass(frozen=True)
class Options:
    """Keywords of `Parser.parse`, `Summarizer.summarize` and, with samples, of the others.

    Args:
        beam: width; 1 is greedy; None: the bundle's, else the paper's (completions: greedy).
        nbest: how many hypotheses of each text, at most the beam.
        length_penalty: alpha of ((5 + |Y|) / 6)^alpha, by which log P is divided; 0: none; None:
            the paper's (completions: none).
        batch_tokens: most tokens of texts decoded at once, padding included.
        no_repeat_ngram: no n-gram of so many tokens occurs twice in an output; 0: no limit.
    """

    beam: int | None = None
    nbest: int = 1
    length_penalty: float | None = None
    batch_tokens: int = 4096
    no_repeat_ngram: int = 0

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """The options of these keywords.

        Raises:
            TypeError: there is none of a name; lists those that there are.
        """
        known = [option.name for option in fields(cls)]
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
        require_at_least_1("nbest", self.nbest)
        width = self._width(beam)
        require_at_least_1("beam", width)
        if self.nbest > width > 0:
            raise UserError(
                f"{self.nbest} hypotheses: a beam of {width} finds no more than {width}; give "
                f"beam {self.nbest}, or sampling"
            )
        alpha = lenpen if self.length_penalty is None else self.length_penalty
        repeat = self.no_repeat_ngram
        return SearchOptions(width, self.nbest, alpha, no_repeat_ngram_size=repeat, **more)

    def _width(self, beam: int) -> int:
        return beam if self.beam is None else self.beam


@dataclass(frozen=True)
class SamplingOptions(Options):
    """Keywords of `Translator.translate` and `LanguageModel.complete`; see also `Options`.

    Args:
        sampling: draw `nbest` samples instead of searching for the likeliest output.
        top_k: draw among the k likeliest tokens only.
        top_p: draw among the fewest tokens whose probabilities sum to at least p.
        temperature: divides the logits; below 1 makes likely tokens likelier; None: 1.
        seed: makes samples repeatable: the same texts give the same samples. None: a new one.
    """

    sampling: bool = False
    top_k: int | None = None
    top_p: float | None = None
    temperature: float | None = None
    seed: int | None = None

    def search(self, beam: int, lenpen: float, **more: Any) -> SearchOptions:
        """See `Options.search`."""
        for name in ("top_k", "top_p", "temperature", "seed"):
            if getattr(self, name) is not None and not self.sampling:
                raise UserError(f"{name} goes with sampling")
        if self.top_k is not None:
            require_at_least_1("top_k", self.top_k)
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UserError(f"top_p {self.top_p}: must be above 0 and at most 1")
        if None not in (self.top_k, self.top_p):
            raise UserError("top_k and top_p exclude each other; drop one")
        if self.sampling and (self.beam or 1) > 1:
            raise UserError("beam and sampling exclude each other")
        return super().search(
            beam,
            lenpen,
            sampling=self.sampling,
            sampling_topk=-1 if self.top_k is None else self.top_k,
            sampling_topp=-1.0 if self.top_p is None else self.top_p,
            temperature=1.0 if self.temperature is None else self.temperature,
            **more,
        )

    def _width(self, beam: int) -> int:
        return self.nbest if self.sampling else super()._width(beam)


def require_at_least_1(name: str, value: int) -> None:
    """Refuse a whole number below 1.

    Raises:
        UserError: names the option.
    """
    if value < 1:
        raise UserError(f"{name} {value}: must be at least 1")


def require_choice(name: str, value: str, *choices: str) -> None:
    """Refuse a word that is none of the choices.

    Raises:
        UserError: names the option and the choices.
    """
    if value not in choices:
        raise UserError(f"{name} is {value!r}; it must be {' or '.join(choices)}")
