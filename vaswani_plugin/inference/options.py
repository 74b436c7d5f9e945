"""The options of `Translator.translate` and `.stream`, and the smallest values of all options."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from vaswani_plugin.decoding import PAPER_DECODING
from vaswani_plugin.errors import UserError
from vaswani_plugin.search.options import SearchOptions

LEAST = {
    **dict.fromkeys(("beam", "nbest", "batch_tokens", "buffer", "top_k"), 1),
    **dict.fromkeys(("max_length", "max_new_tokens"), 1),
    **dict.fromkeys(("min_length", "min_new_tokens", "no_repeat_ngram"), 0),
}
"""The smallest value of each whole number among the options of translating, completing, parsing and
summarizing."""


def as_keyword(name: str, value: object) -> str:
    """An option as the first words of a message: ``nbest is 0; it``."""
    return f"{name} is {value}; it"


def as_flag(name: str, value: object) -> str:
    """An option as the first words of a message: ``--nbest 0:``."""
    return f"--{name.replace('_', '-')} {value}:"


def require_at_least(
    values: Mapping[str, Any], spelling: Callable[[str, object], str] = as_keyword
) -> None:
    """Refuse options below their smallest values.

    Args:
        values: by the options' names; those that `LEAST` lacks are not checked, nor is None.
        spelling: `as_keyword` or `as_flag`.

    Raises:
        UserError: names the option and its smallest value.
    """
    for name, least in LEAST.items():
        value = values.get(name)
        if value is not None and value < least:
            raise UserError(f"{spelling(name, value)} must be at least {least}")


class TranslateOptions(TypedDict, total=False):
    """Keywords of `Translator.translate` and `.stream`; each may be left out.

    beam: width of the beam (the bundle's own, else the paper's 4).
    nbest: how many hypotheses of each text (1).
    length_penalty: alpha of ((5 + |Y|)/6)^alpha (the paper's 0.6).
    batch_tokens: most source subwords decoded at once, padding included (4,096).
    one_sentence: take each text as one sentence. Without it, sentences are translated one by one,
        and one of more subwords than the longest in training in pieces.
    long: what to do with a sentence of more subwords than the model takes: "error" (the default),
        "split" it into pieces that are translated one by one, or "truncate" it.
    align: also find the source subword of each target subword.
    sampling: draw `nbest` samples instead of searching for the likeliest; there is no beam then.
    top_k: sample among the k likeliest subwords only.
    top_p: sample among the fewest subwords whose probabilities sum to at least p.
    temperature: divides the logits (1).
    seed: makes samples repeatable: the same texts give the same samples.
    prefix: text that the translation begins with, one for all texts or one for each.
    min_length: fewest subwords of a translation (1).
    no_repeat_ngram: no n-gram of so many subwords occurs twice in a translation (0: no limit).
    progress: show a bar on stderr.
    """

    beam: int | None
    nbest: int
    length_penalty: float | None
    batch_tokens: int
    one_sentence: bool
    long: Literal["error", "split", "truncate"]
    align: bool
    sampling: bool
    top_k: int | None
    top_p: float | None
    temperature: float
    seed: int | None
    prefix: str | Sequence[str] | None
    min_length: int
    no_repeat_ngram: int
    progress: bool


LONG = ("error", "split", "truncate")
"""Values of `long`."""


def make_search_options(given: TranslateOptions, own_beam: int | None) -> SearchOptions:
    """The options of the search.

    Args:
        given: by the caller.
        own_beam: the bundle's beam, if it has one.

    Raises:
        UserError: they don't fit together; names the option and the remedy.
    """
    check_options(given)
    nbest, sampling = given.get("nbest", 1), given.get("sampling", False)
    beam = nbest if sampling else given.get("beam") or own_beam or PAPER_DECODING["beam"]
    if nbest > beam:
        raise UserError(f"--nbest {nbest}: a beam of {beam} finds no more than {beam}")
    alpha = given.get("length_penalty")
    return SearchOptions(
        beam=beam,
        nbest=nbest,
        lenpen=PAPER_DECODING["lenpen"] if alpha is None else alpha,
        max_len_a=PAPER_DECODING["max_len_a"],
        max_len_b=PAPER_DECODING["max_len_b"],
        min_len=given.get("min_length", 1),
        no_repeat_ngram_size=given.get("no_repeat_ngram", 0),
        sampling=sampling,
        sampling_topk=given.get("top_k") or -1,
        sampling_topp=given.get("top_p") or -1.0,
        temperature=given.get("temperature", 1.0),
        print_alignment="hard" if given.get("align", False) else None,
    )


def check_options(given: TranslateOptions) -> None:
    """Refuse unknown options and values out of range.

    Raises:
        UserError: names the option.
    """
    if unknown := given.keys() - TranslateOptions.__annotations__.keys():
        known = ", ".join(TranslateOptions.__annotations__)
        raise UserError(f"{min(unknown)}: no option of that name; there are {known}")
    require_at_least(given)
    if (top_p := given.get("top_p")) is not None and not 0 < top_p <= 1:
        raise UserError(f"top_p is {top_p}; it must be above 0 and at most 1")
    if given.get("top_k") is not None and top_p is not None:
        raise UserError("top_k and top_p exclude each other")
    if given.get("long", "error") not in LONG:
        raise UserError(f"long is {given['long']!r}; it must be one of {', '.join(LONG)}")
    if given.get("sampling", False):
        if given.get("beam") is not None:
            raise UserError("beam and sampling exclude each other: nbest is the number of samples")
        return
    for name in ("top_k", "top_p", "seed"):
        if given.get(name) is not None:
            raise UserError(f"{name} goes with sampling: give sampling=True")
