"""The formula of BLEU and the counts that it needs (Papineni et al. 2002).

    BLEU = min(1, exp(1 - reference_length / output_length)) * (prod_i precision_i)^(1/4)

precision_i is the share of the output's i-grams that also occur in a reference. Nothing is
smoothed: this is the BLEU of multi-bleu.perl and of the paper.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

# multi-bleu.perl reads bytes. So a no-break space or U+2028 does not separate words, and -lc
# lowercases ASCII letters alone.
_WORDS = re.compile(r"[^ \t\n\r\f\v]+").findall
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def brevity_penalty(output_length: int, reference_length: int) -> float:
    """min(1, exp(1 - reference_length / output_length)), lengths in words; 0 for no output."""
    if output_length == 0:
        return 0.0
    return min(1.0, math.exp(1 - reference_length / output_length))


def bleu(precisions: Sequence[float], output_length: int, reference_length: int) -> float:
    """The formula above.

    Args:
        precisions: of the 1-grams, 2-grams, ..., each from 0 to 1.
        output_length: words of all outputs together.
        reference_length: words of all references together.

    Returns:
        A number from 0 to 1; 0 where any precision is 0.
    """
    if 0 in precisions:
        return 0.0
    mean = math.exp(sum(map(math.log, precisions)) / len(precisions))
    return brevity_penalty(output_length, reference_length) * mean


@dataclass(frozen=True)
class BleuCounts:
    """The counts over a corpus from which BLEU is computed.

    matches: for each order from 1, the number of the output's n-grams that also occur in a
    reference. totals: the number of all n-grams of the output. Lengths are in words.
    """

    matches: tuple[int, ...]
    totals: tuple[int, ...]
    output_length: int
    reference_length: int

    @property
    def precisions(self) -> tuple[float, ...]:
        """Matches over totals; 0 where the output is too short for an order."""
        pairs = zip(self.matches, self.totals, strict=True)
        return tuple(match / total if total else 0.0 for match, total in pairs)

    @property
    def score(self) -> float:
        """BLEU from 0 to 100."""
        return 100 * bleu(self.precisions, self.output_length, self.reference_length)


def count_words(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    lowercase: bool = False,
    orders: int = 4,
) -> BleuCounts:
    """Count matches, n-grams and lengths as multi-bleu.perl does.

    Args:
        outputs: tokenized segments; words are separated by ASCII white space.
        references: one or more lists, each with a segment for each output. The reference length of
            a segment is the one closest to the output's; of two equally close ones, the shorter.
            An n-gram matches at most as often as in the reference where it is most frequent.
        lowercase: ignore the case of ASCII letters.
        orders: length of the longest n-gram.

    Raises:
        ValueError: a list of references has another length than `outputs`.
    """
    matches: Counter[int] = Counter()
    totals: Counter[int] = Counter()
    output_length = reference_length = 0
    for output, *golds in zip(outputs, *references, strict=True):
        words, *golds = (_words(line, lowercase) for line in (output, *golds))
        output_length += len(words)
        reference_length += min((abs(len(g) - len(words)), len(g)) for g in golds)[1]
        for order in range(1, orders + 1):
            ours = ngrams(words, order)
            theirs: Counter[tuple[str, ...]] = Counter()
            for gold in golds:
                theirs |= ngrams(gold, order)
            matches[order] += (ours & theirs).total()
            totals[order] += ours.total()
    counted = range(1, orders + 1)
    return BleuCounts(
        tuple(matches[order] for order in counted),
        tuple(totals[order] for order in counted),
        output_length,
        reference_length,
    )


def _words(line: str, lowercase: bool) -> list[str]:
    return _WORDS(line.translate(_ASCII_LOWER) if lowercase else line)


def ngrams(words: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    """How often each sequence of `order` words occurs."""
    return Counter(zip(*(words[start:] for start in range(order)), strict=False))
