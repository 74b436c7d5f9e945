"""Labelled bracketing scores as EVALB counts them (Sekine and Collins, 1997; Ellis' version, 2006).

A bracket is right if the other tree has a bracket with the same label and words. All rules are
EVALB's, because published scores use EVALB: words with a deleted tag don't count, function labels
are removed, brackets without remaining words are deleted, and a test bracket crosses at most once.
A sentence has one of three statuses: scored (0), error (1: the trees have different words, or one
is broken) or skipped (2: the test tree has no words).

EVALB itself stops at text that is not a bracketing. It also cuts lines at 5,000 bytes and sentences
at 200 words or brackets. Here such a sentence is an error, or is scored in full (up to
`evalb_trees.MOST_BRACKETS`).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from vaswani_plugin.metrics.evalb_parameters import Parameters
from vaswani_plugin.metrics.evalb_trees import (
    DELETED,
    RIGHT,
    WRONG,
    Bracket,
    Bracketing,
    put_back,
    read_bracketing,
)

SCORED, ERROR, SKIPPED = range(3)
_FUNCTIONS = re.compile(r"[-=].*", re.DOTALL)


@dataclass
class SentenceScore:
    """A row of EVALB's table. errors: its messages. differences: the lines of DEBUG 2."""

    line: int
    length: int
    gold_tree: Bracketing
    test_tree: Bracketing
    status: int = SCORED
    matched: int = 0
    gold: int = 0
    test: int = 0
    crossing: int = 0
    words: int = 0
    tags: int = 0
    errors: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)


def compare(line: int, gold_text: str, test_text: str, parameters: Parameters) -> SentenceScore:
    """Score a tree against the gold tree.

    Args:
        line: number of the sentence, from 1 on.
        gold_text, test_text: one bracketing each.
        parameters: EVALB's settings.
    """
    gold, test = read_bracketing(gold_text, parameters), read_bracketing(test_text, parameters)
    score = SentenceScore(line, gold.length, gold, test, errors=[*gold.errors, *test.errors])
    score.status = ERROR if score.errors else SCORED
    if not test.words and test.is_readable:
        score.status = SKIPPED
        return score
    if not (gold.is_readable and test.is_readable):
        return score
    if mismatch := _word_mismatch(gold, test, parameters):
        score.errors.append(mismatch)
        score.status = ERROR
        return score
    _delete(gold, parameters)
    _delete(test, parameters)
    score.gold, score.test = len(gold.counted), len(test.counted)
    score.matched = _match(gold, test, parameters, score.differences)
    score.crossing = _count_crossing(gold, test, score.differences)
    score.words = len(gold.words)
    for one, other in zip(gold.words, test.words, strict=True):
        same = _equal(one.tag, other.tag, parameters.equal_labels)
        one.result = other.result = RIGHT if same else WRONG
        score.tags += same
    return score


def _equal(one: str, other: str, pairs: frozenset[tuple[str, str]]) -> bool:
    return one == other or (one, other) in pairs


def _word_mismatch(gold: Bracketing, test: Bracketing, parameters: Parameters) -> str | None:
    if len(gold.words) != len(test.words):
        _restore_quotes(gold, test, parameters.delete)
    if len(gold.words) != len(test.words):
        return f"Length unmatch ({len(gold.words)}|{len(test.words)})"
    for one, other in zip(gold.words, test.words, strict=True):
        if not _equal(one.word, other.word, parameters.equal_words):
            return f"Words unmatch ({one.word}|{other.word})"
    return None


def _restore_quotes(gold: Bracketing, test: Bracketing, delete: frozenset[str]) -> None:
    """Restore a quotation mark that only one side deleted because of its tag."""
    for i, ours in enumerate(test.quotes):
        index = ours.index
        for j, theirs in enumerate(gold.quotes):
            if theirs.index != index:
                continue
            if theirs.word.tag in delete and ours.word.tag not in delete:
                put_back(gold, j)
            elif ours.word.tag in delete and theirs.word.tag not in delete:
                put_back(test, i)


def _delete(tree: Bracketing, parameters: Parameters) -> None:
    deleted = parameters.delete_brackets
    for bracket in tree.brackets:
        bracket.result = WRONG
        if bracket.start == bracket.end:
            bracket.result = DELETED
            continue
        bracket.label = _FUNCTIONS.sub("", bracket.label)
        if bracket.label in deleted:
            bracket.result = DELETED


def _match(
    gold: Bracketing, test: Bracketing, parameters: Parameters, differences: list[str]
) -> int:
    """Pair brackets, each at most once; returns the number of pairs."""
    candidates: dict[tuple[int, int], list[Bracket]] = defaultdict(list)
    for bracket in test.counted:
        candidates[bracket.span].append(bracket)
    mislabelled: set[int] = set()
    matched = 0
    for bracket in gold.counted:
        free = [other for other in candidates[bracket.span] if other.result == WRONG]
        for other in free:
            if not parameters.labelled or _equal(
                bracket.label, other.label, parameters.equal_labels
            ):
                bracket.result = other.result = RIGHT
                matched += 1
                break
            mislabelled.add(id(other))
            differences.append(_shown("LABEL", bracket))
        if not free:
            differences.append(_shown("BRACKET", bracket))
    for other in test.counted:
        if other.result == WRONG and id(other) not in mislabelled:
            differences.append(_shown("EXTRA", other))
    return matched


def _count_crossing(gold: Bracketing, test: Bracketing, differences: list[str]) -> int:
    """The number of test brackets that cross a gold bracket."""
    crossing, last = 0, None
    counted = gold.counted
    for bracket in test.counted:
        crossed = next((other for other in counted if other.crosses(bracket)), None)
        if crossed is None:
            continue
        crossing += 1
        if crossed is not last:
            differences.append(_shown("CROSSING", crossed))
        last = crossed
    return crossing


def _shown(kind: str, bracket: Bracket) -> str:
    return f"  {kind}[{bracket.start}-{bracket.end - 1}]: {bracket.content}"


@dataclass
class Totals:
    """Sums over sentences, from which EVALB's summaries are computed."""

    sentences: int = 0
    errors: int = 0
    skipped: int = 0
    matched: int = 0
    gold: int = 0
    test: int = 0
    complete: int = 0
    crossing: int = 0
    no_crossing: int = 0
    two_crossing: int = 0
    words: int = 0
    tags: int = 0

    def add(self, score: SentenceScore) -> None:
        """Count a sentence."""
        self.sentences += 1
        self.errors += score.status == ERROR
        self.skipped += score.status == SKIPPED
        if score.status != SCORED:
            return
        for name in ("matched", "gold", "test", "crossing", "words", "tags"):
            setattr(self, name, getattr(self, name) + getattr(score, name))
        self.complete += score.gold == score.test == score.matched
        self.no_crossing += score.crossing == 0
        self.two_crossing += score.crossing <= 2

    def summary(self) -> dict[str, float | None]:
        """EVALB's summary with EVALB's names; shares in percent, F None where nothing matched."""
        valid = self.sentences - self.errors - self.skipped
        recall, precision = percent(self.matched, self.gold), percent(self.matched, self.test)
        both = recall + precision
        return {
            "sentence": self.sentences,
            "error_sentence": self.errors,
            "skip_sentence": self.skipped,
            "valid_sentence": valid,
            "bracketing_recall": recall,
            "bracketing_precision": precision,
            "bracketing_fmeasure": 2 * precision * recall / both if both else None,
            "complete_match": percent(self.complete, valid),
            "average_crossing": self.crossing / valid if valid else 0.0,
            "no_crossing": percent(self.no_crossing, valid),
            "2_or_less_crossing": percent(self.two_crossing, valid),
            "tagging_accuracy": percent(self.tags, self.words),
        }


def percent(part: int, whole: int) -> float:
    """The percentage of a part, from 0 to 100; 0 of nothing."""
    return 100.0 * part / whole if whole else 0.0


def score_trees(
    gold: Iterable[str], test: Iterable[str], parameters: Parameters
) -> Iterator[SentenceScore]:
    """Score trees line by line.

    Args:
        gold, test: one bracketing a line; equally many lines.
        parameters: EVALB's settings.

    Yields:
        The score of each line.

    Raises:
        ValueError: more errors than `parameters.max_error` allows, or different numbers of lines.
    """
    errors = 0
    for line, (one, other) in enumerate(zip(gold, test, strict=True), 1):
        score = compare(line, one, other, parameters)
        errors += len(score.errors)
        if errors > parameters.max_error + 1:  # EVALB allows one more than it says
            raise ValueError(
                f"line {line}: {score.errors[-1]}: more errors than MAX_ERROR "
                f"{parameters.max_error} allows; do the files belong together? Otherwise raise it "
                "in the parameter file"
            )
        yield score
