"""Mistakes that users can correct themselves, and what the numbers of an inference may be.

One table of ranges serves Python, the command line, HTTP and fairseq's flags of generation; those
of a training's settings are in `fairseq_plugin.configurations`.
"""

from collections.abc import Callable
from importlib import import_module
from numbers import Integral, Real
from types import ModuleType
from typing import Any, NamedTuple


class UserError(ValueError):
    """A mistake of the user; the message names the value and the remedy."""


def optional(module: str, packages: str) -> ModuleType:
    """Import an optional dependency; a `UserError` names the packages to install."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UserError(f"{module} is not installed ({error}): pip install {packages}") from error


LARGEST = 10**20
"""The size of every number stays below it, so that no product of a few is infinite."""


class Range(NamedTuple):
    """What a number may be; `rule` completes "it must be"."""

    kind: type[int] | type[float]
    accepts: Callable[[Any], bool] = lambda value: True
    rule: str = ""

    def refusal(self, value: Any) -> str | None:
        """What a value must be, where it is not."""
        kind: Any = Integral if self.kind is int else Real
        if isinstance(value, bool) or not isinstance(value, kind):
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
RANGES: dict[str, Range] = dict.fromkeys((_COUNTS + " tokens_per_sample").split(), COUNT)
RANGES |= dict.fromkeys(("longest_trained", "article_tokens", "summary_tokens"), COUNT)
RANGES |= dict.fromkeys(_NATURALS.split(), NATURAL)
RANGES |= {"top_p": PROBABILITY, "sampling_topp": PROBABILITY, "temperature": TEMPERATURE}
RANGES |= {"lenpen": EXPONENT, "length_penalty": EXPONENT, "threads": THREADS, "seed": Range(int)}
"""Of the options of Python, the command line, HTTP and fairseq, by their names there."""


def check_ranges(**options: Any) -> None:
    """Refuse an option out of its range, if it has one; None is the default of any.

    Raises:
        UserError: names the option, its value and its range.
    """
    for name, value in options.items():
        if name in RANGES and value is not None and (rule := RANGES[name].refusal(value)):
            raise UserError(f"{name} is {value!r}; it must be {rule}")


def require_choice(name: str, value: str, *choices: str) -> None:
    """Refuse a word that is none of the choices; the UserError names the option and them."""
    if value not in choices:
        raise UserError(f"{name} is {value!r}; it must be {' or '.join(choices)}")
