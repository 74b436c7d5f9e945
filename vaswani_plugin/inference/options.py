"""The options of translating, completing, parsing and summarizing: keywords of the methods.

Each kind of model has a dataclass; its `of` reads a method's keywords.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Self, get_args, get_origin

from vaswani_plugin.errors import UserError
from vaswani_plugin.search.options import (
    MAX_NEW_TOKENS,
    PAPER_DECODING,
    PARSER_DECODING,
    SearchOptions,
)

LEAST = {
    **dict.fromkeys(("beam", "nbest", "batch_tokens", "buffer", "top_k"), 1),
    **dict.fromkeys(("max_length", "max_new_tokens"), 1),
    **dict.fromkeys(("min_length", "min_new_tokens", "no_repeat_ngram"), 0),
}
"""The smallest value of each whole number."""


def require_at_least(**values: int | None) -> None:
    """Refuse whole numbers below their smallest values.

    Raises:
        UserError: names the option and its smallest value.
    """
    for name, value in values.items():
        least = LEAST.get(name)
        if least is not None and value is not None and value < least:
            raise UserError(f"--{name.replace('_', '-')} {value}: must be at least {least}")


@dataclass(frozen=True)
class Options:
    """What every search has.

    Args:
        beam: width; 1 is greedy; None: the bundle's, else `default_beam`.
        nbest: how many hypotheses of each text, at most the beam; or samples.
        length_penalty: alpha of ((5 + |Y|) / 6)^alpha, by which log P is divided; 0: none.
        batch_tokens: most tokens of sources decoded at once, padding included.

    Raises:
        UserError: a value is out of range or contradicts another one; names it as a flag.
    """

    default_beam: ClassVar[int] = PAPER_DECODING["beam"]

    beam: int | None = None
    nbest: int = 1
    length_penalty: float | None = PAPER_DECODING["lenpen"]
    batch_tokens: int = 4096

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """The options of a method's keywords.

        Raises:
            UserError: see the class; or there is no option of a name.
        """
        known = [each.name for each in fields(cls) if each.init]
        if unknown := given.keys() - set(known):
            raise UserError(f"{min(unknown)}: no option of that name; there are {', '.join(known)}")
        return cls(**given)

    def __post_init__(self) -> None:
        """Check the values."""
        require_at_least(**vars(self))
        for each in fields(self):
            value, choices = getattr(self, each.name), get_args(each.type)
            if get_origin(each.type) is Literal and value not in choices:
                raise UserError(f"{each.name} is {value!r}; it must be {' or '.join(choices)}")

    def search_options(self, bundle_beam: int | None = None, **more: Any) -> SearchOptions:
        """The options of the search.

        Args:
            bundle_beam: the bundle's beam, if it has one.
            more: of `SearchOptions`.

        Raises:
            UserError: they don't fit together; names the option and the remedy.
        """
        beam = self._width(bundle_beam)
        if self.nbest > beam:
            raise UserError(
                f"{self.nbest} hypotheses: a beam of {beam} finds no more than {beam}; give --beam "
                f"{self.nbest}, or --sampling"
            )
        alpha = self.length_penalty
        alpha = PAPER_DECODING["lenpen"] if alpha is None else alpha
        return SearchOptions(**{"beam": beam, "nbest": self.nbest, "lenpen": alpha, **more})

    def _width(self, bundle_beam: int | None) -> int:
        return self.beam or bundle_beam or self.default_beam


@dataclass(frozen=True)
class SamplingOptions(Options):
    """Options of searches that can also draw samples.

    Args:
        no_repeat_ngram: no n-gram of so many tokens occurs twice in an output; 0: no limit.
        sampling: draw `nbest` samples instead of searching for the likeliest output.
        top_k: draw among the k likeliest tokens only.
        top_p: draw among the fewest tokens whose probabilities sum to at least p.
        temperature: divides the logits; below 1 makes likely tokens likelier; None: 1.
        seed: makes samples repeatable: the same texts give the same samples. None: a new one.
    """

    no_repeat_ngram: int = 0
    sampling: bool = False
    top_k: int | None = None
    top_p: float | None = None
    temperature: float | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UserError(f"--top-p {self.top_p}: must be above 0 and at most 1")
        if self.top_k is not None and self.top_p is not None:
            raise UserError("--top-k and --top-p exclude each other")
        if self.sampling and (self.beam or 1) > 1:
            raise UserError("--beam and --sampling exclude each other")
        for name in ("top_k", "top_p", "temperature", "seed"):
            if getattr(self, name) is not None and not self.sampling:
                raise UserError(f"--{name.replace('_', '-')} goes with --sampling")

    def search_options(self, bundle_beam: int | None = None, **more: Any) -> SearchOptions:
        """See `Options.search_options`."""
        return super().search_options(
            bundle_beam,
            no_repeat_ngram_size=self.no_repeat_ngram,
            sampling=self.sampling,
            sampling_topk=self.top_k or -1,
            sampling_topp=self.top_p or -1.0,
            temperature=1.0 if self.temperature is None else self.temperature,
            **more,
        )

    def _width(self, bundle_beam: int | None) -> int:
        return self.nbest if self.sampling else super()._width(bundle_beam)


@dataclass(frozen=True)
class TranslateOptions(SamplingOptions):
    """Keywords of `Translator.translate` and `.stream`; see also `SamplingOptions` and `Options`.

    Args:
        one_sentence: take each text as one sentence. Without it, sentences are translated one by
            one, and one of more subwords than the longest in training in pieces.
        long: what to do with a sentence of more subwords than the model takes: "error", "split" it
            into pieces that are translated one by one, or "truncate" it.
        align: also find the source subword of each target subword.
        prefix: text that the translation begins with, one for all texts or one for each.
        min_length: fewest subwords of a translation.
        progress: show a bar on stderr.
    """

    one_sentence: bool = False
    long: Literal["error", "split", "truncate"] = "error"
    align: bool = False
    prefix: str | Sequence[str] | None = None
    min_length: int = 1
    progress: bool = False

    def search_options(self, bundle_beam: int | None = None, **more: Any) -> SearchOptions:
        """See `Options.search_options`."""
        return super().search_options(
            bundle_beam,
            max_len_a=PAPER_DECODING["max_len_a"],
            max_len_b=PAPER_DECODING["max_len_b"],
            min_len=self.min_length,
            print_alignment="hard" if self.align else None,
            **more,
        )


@dataclass(frozen=True)
class CompletionOptions(SamplingOptions):
    """Keywords of `LanguageModel.complete`; see also `SamplingOptions` and `Options`.

    Args:
        max_new_tokens: a text is cut after so many tokens; None: 100, or half of the model's
            positions if that is less.
        min_new_tokens: a text can't end before so many tokens.
        stop: "end": stop at the end of a line, as in the training text; "never": go on with the
            next line until the text is cut.
        long: for a prompt that leaves too few positions for the new tokens: "cut" reads only its
            last tokens; "error" refuses it.

    The samples of the n-th prompt depend only on the seed, n and the prompt; prompts are then
    completed one by one, not in batches.
    """

    default_beam: ClassVar[int] = 1

    length_penalty: float | None = 0.0
    max_new_tokens: int | None = None
    min_new_tokens: int = 0
    stop: Literal["end", "never"] = "end"
    long: Literal["cut", "error"] = "cut"

    def search_options(self, bundle_beam: int | None = None, **more: Any) -> SearchOptions:
        """See `Options.search_options`."""
        return super().search_options(bundle_beam, min_len=self.min_new_tokens, **more)

    def for_positions(self, positions: int) -> "CompletionOptions":
        """The options with `max_new_tokens` set, for a model of so many positions.

        Raises:
            UserError: no position is left for a prompt, or --min-new-tokens exceeds the limit.
        """
        most = self.max_new_tokens or min(MAX_NEW_TOKENS, positions // 2)
        if most >= positions:  # the end of sentence comes before a prompt
            raise UserError(
                f"--max-new-tokens {most}: the model has {positions} positions; give at most "
                f"{positions - 1}"
            )
        if self.min_new_tokens > most:
            raise UserError(
                f"--min-new-tokens {self.min_new_tokens} exceeds --max-new-tokens {most}; lower it"
            )
        return replace(self, max_new_tokens=most)

    @property
    def limit(self) -> int:
        """`max_new_tokens`, once `for_positions` has set it."""
        assert self.max_new_tokens is not None
        return self.max_new_tokens


@dataclass(frozen=True)
class ParseOptions(Options):
    """Keywords of `Parser.parse`; see also `Options`.

    Args:
        unconstrained: allow outputs that are no tree, as in the paper.
    """

    default_beam: ClassVar[int] = PARSER_DECODING["beam"]

    length_penalty: float | None = PARSER_DECODING["lenpen"]
    batch_tokens: int = 2048
    unconstrained: bool = False


@dataclass(frozen=True)
class SummaryOptions(Options):
    """Keywords of `Summarizer.summarize`; see also `Options`. There is no `nbest`.

    Args:
        no_repeat_ngram: no n-gram of so many tokens occurs twice in a summary; 0: no limit.
        max_length: most tokens of a summary; None: the limit of the training.
    """

    nbest: int = field(default=1, init=False)
    no_repeat_ngram: int = 0
    max_length: int | None = None
