"""Labelled bracketing scores as EVALB counts them (Sekine and Collins, 1997; Ellis' version, 2006).

A bracket is right if the other tree has a bracket with the same label and words. All rules are
EVALB's, because published scores use EVALB: words with a deleted tag don't count, function labels
are removed, brackets without remaining words are deleted, and a test bracket crosses at most once.
A sentence has one of three statuses: scored (0), error (1: the trees have different words, or one
is broken) or skipped (2: the test tree has no words).

The trees are read here, because EVALB accepts more than a treebank's reader: several trees on a
line, a word without a constituent around it, an empty line. EVALB itself stops at text that is not
a bracketing, and cuts lines at 5,000 bytes and sentences at 200 words or brackets. Here such a
sentence is an error, or is scored in full.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from vaswani_plugin.errors import UserError

SCORED, ERROR, SKIPPED = range(3)
Pairs = frozenset[tuple[str, str]]
_NONE: frozenset[str] = frozenset()
_KEYWORDS = {
    "DELETE_LABEL": "delete",
    "DELETE_LABEL_FOR_LENGTH": "delete_for_length",
    "QUOTE_LABEL": "quotes",
    "QUOTE_TERM": "quotes",
    "EQ_LABEL": "equal_labels",
    "EQ_WORD": "equal_words",
    "CUTOFF_LEN": "cutoff",
    "LABELED": "label",
}


@dataclass(frozen=True)
class Parameters:
    """The settings of a .prm file; the defaults are EVALB's without such a file."""

    cutoff: int = 40  # longest sentence of the second summary, in words
    label: int = 1  # whether labels must match
    delete: frozenset[str] = _NONE  # labels of brackets and words that don't count
    delete_for_length: frozenset[str] = _NONE  # tags of words that don't count in the length
    quotes: frozenset[str] = _NONE  # tags of quotation marks, restored if one side deletes them
    equal_labels: Pairs = frozenset()  # pairs that count as equal, both ways
    equal_words: Pairs = frozenset()


# Collins' (1997), the usual settings for scoring parsers.
COLLINS = Parameters(
    delete=frozenset({"TOP", "-NONE-", ",", ":", "``", "''", "."}),
    delete_for_length=frozenset({"-NONE-"}),
    equal_labels=frozenset({("ADVP", "PRT"), ("PRT", "ADVP")}),
)


def parse_parameters(lines: Iterable[str], name: str) -> Parameters:
    """Reads a .prm file: a keyword and its values a line; "#" begins a comment line."""
    settings = Parameters()
    for number, line in enumerate(lines, 1):
        if line.startswith("#") or not line.split():
            continue
        keyword, *values = line.split()
        if keyword in ("DEBUG", "MAX_ERROR"):  # of EVALB's messages and its end after errors
            continue
        attribute = _KEYWORDS.get(keyword, "")
        is_pair = keyword.startswith("EQ_")
        now = getattr(settings, attribute, None)
        is_number = isinstance(now, int)
        allowed = "[01]" if keyword == "LABELED" else "[0-9]{1,9}" if is_number else ".*"
        fits = len(values) == 1 + is_pair and re.fullmatch(allowed, values[0])
        if now is None or not fits:
            raise UserError(
                f"{name}:{number}: {line.strip()!r}: must be a keyword ({', '.join(_KEYWORDS)}), "
                "a value: 0 or 1 for LABELED, a number for CUTOFF_LEN, two for EQ_LABEL and EQ_WORD"
            )
        one, other = values[0], values[-1]
        added = {(one, other), (other, one)} if is_pair else {one}
        changed: Any = int(one) if is_number else now | added
        settings = replace(settings, **{attribute: changed})
    return settings


_PART = re.compile(r"\(([^\s()]*)\s+([^\s()]*)\)|\(([^\s()]*)|\)|\s+", re.ASCII)
_QUOTES = ("'", '"', "/")
_FUNCTIONS = re.compile(r"[-=].*", re.DOTALL)


@dataclass
class _Line:
    """A line of trees: all words, how often each counts, brackets over words begin to end - 1."""

    leaves: list[tuple[str, str]] = field(default_factory=list)  # tag, word
    counts: list[int] = field(default_factory=list)
    brackets: list[list] = field(default_factory=list)  # label, begin, end
    errors: list[str] = field(default_factory=list)
    is_readable: bool = True

    def words(self) -> list[tuple[str, str]]:
        """The tags and words that count."""
        return [
            leaf for leaf, times in zip(self.leaves, self.counts, strict=True) for _ in range(times)
        ]

    def counted(self, parameters: Parameters) -> list[tuple[str, int, int]]:
        """The brackets that count, over the words that count: label, begin, end."""
        # EVALB's DELETE_LABEL reaches the labels that equal it, of brackets, not of words.
        equal = {one for one, other in parameters.equal_labels if other in parameters.delete}
        before = [*accumulate(self.counts, initial=0)]
        plain = ((_FUNCTIONS.sub("", label), before[b], before[e]) for label, b, e in self.brackets)
        return [
            (label, begin, end)
            for label, begin, end in plain
            if begin < end and label not in parameters.delete | equal
        ]


def _read(line: str, parameters: Parameters) -> _Line:
    parsed, inside, position = _Line(), [], 0
    while position < len(line):
        part = _PART.match(line, position)
        if part is None:
            parsed.errors.append("Reading sentence")
            parsed.is_readable = False
            return parsed
        position = part.end()
        if part[1] is not None:
            parsed.leaves.append((part[1], part[2]))
            parsed.counts.append(int(part[1] not in parameters.delete))
        elif part[3] is not None:
            inside.append([part[3], len(parsed.leaves), -1])
            parsed.brackets.append(inside[-1])
        elif part[0] == ")" and inside:
            inside.pop()[2] = len(parsed.leaves)
        elif part[0] == ")":
            parsed.errors.append("Bracketing unbalance (too many close bracket)")
    if inside:
        parsed.errors.append("Bracketing is unbalanced (too many open bracket)")
    return parsed


def _restore_quotes(gold: _Line, test: _Line, parameters: Parameters) -> None:
    """Makes a quotation mark count that only one side deleted because of its tag."""
    lines = gold, test  # as in EVALB, the first of two marks in a row can be restored twice
    marks = [
        [n for n, (t, word) in enumerate(line.leaves) if t in parameters.quotes and word in _QUOTES]
        for line in lines
    ]
    # Of each mark, the number of words that count before it.
    before = [[*accumulate(line.counts, initial=0)] for line in lines]
    indices = [[counts[n] for n in places] for counts, places in zip(before, marks, strict=True)]
    for i, one in enumerate(marks[1]):
        wanted = indices[1][i]
        for j, other in enumerate(marks[0]):
            if indices[0][j] != wanted:
                continue
            is_deleted = gold.leaves[other][0] in parameters.delete
            if is_deleted != (test.leaves[one][0] in parameters.delete):
                side, place, first = (0, other, j) if is_deleted else (1, one, i)
                lines[side].counts[place] += 1
                indices[side][first:] = [index + 1 for index in indices[side][first:]]


SUMMED = ("matched", "gold", "test", "crossing", "words", "tags")  # the counts of a `SentenceScore`


@dataclass
class SentenceScore:
    """A row of EVALB's table; errors are its messages."""

    line: int
    length: int
    status: int = SCORED
    matched: int = 0
    gold: int = 0
    test: int = 0
    crossing: int = 0
    words: int = 0
    tags: int = 0
    errors: list[str] = field(default_factory=list)


def compare(line: int, gold_text: str, test_text: str, parameters: Parameters) -> SentenceScore:
    """Scores a bracketing against the gold one; `line` numbers the sentence, from 1 on."""
    gold, test = _read(gold_text, parameters), _read(test_text, parameters)
    length = sum(tag not in parameters.delete_for_length for tag, _ in gold.leaves)
    score = SentenceScore(line, length, errors=[*gold.errors, *test.errors])
    if test.is_readable and not test.words():
        score.status = SKIPPED
        return score
    if gold.is_readable and test.is_readable:
        if sum(gold.counts) != sum(test.counts):
            _restore_quotes(gold, test, parameters)
        score.errors += _mismatch(gold.words(), test.words(), parameters.equal_words)
    if score.errors:
        score.status = ERROR
        return score
    equal = parameters.equal_labels
    ours, theirs = gold.counted(parameters), test.counted(parameters)
    score.gold, score.test = len(ours), len(theirs)
    free: dict[tuple[int, int], list[str]] = defaultdict(list)
    for label, begin, end in theirs:
        free[begin, end].append(label)
    for label, begin, end in ours:
        for other in free[begin, end]:
            if not parameters.label or label == other or (label, other) in equal:
                free[begin, end].remove(other)
                score.matched += 1
                break
    score.crossing = sum(
        any(b < begin < e < end or begin < b < end < e for _, b, e in ours)
        for _, begin, end in theirs
    )
    pairs = [(a, b) for (a, _), (b, _) in zip(gold.words(), test.words(), strict=True)]
    score.words, score.tags = len(pairs), sum(a == b or (a, b) in equal for a, b in pairs)
    return score


def _mismatch(gold: list[tuple[str, str]], test: list[tuple[str, str]], equal: Pairs) -> list[str]:
    if len(gold) != len(test):
        return [f"Length unmatch ({len(gold)}|{len(test)})"]
    for (_, one), (_, other) in zip(gold, test, strict=True):
        if one != other and (one, other) not in equal:
            return [f"Words unmatch ({one}|{other})"]
    return []


TITLES = {
    "sentence": "Number of sentence",
    "error_sentence": "Number of Error sentence",
    "skip_sentence": "Number of Skip  sentence",
    "valid_sentence": "Number of Valid sentence",
    "bracketing_recall": "Bracketing Recall",
    "bracketing_precision": "Bracketing Precision",
    "bracketing_fmeasure": "Bracketing FMeasure",
    "complete_match": "Complete match",
    "average_crossing": "Average crossing",
    "no_crossing": "No crossing",
    "2_or_less_crossing": "2 or less crossing",
    "tagging_accuracy": "Tagging accuracy",
}
"""EVALB's name of each number of a summary."""


def summary(scores: Sequence[SentenceScore]) -> dict[str, float | None]:
    """EVALB's summary, by the keys of `TITLES`: percentages; F is None where nothing matched."""
    valid = [score for score in scores if score.status == SCORED]
    count = len(valid)
    sums = {name: sum(getattr(score, name) for score in valid) for name in SUMMED}
    recall, precision = (percent(sums["matched"], sums[side]) for side in ("gold", "test"))
    both = recall + precision
    return {
        "sentence": len(scores),
        "error_sentence": sum(score.status == ERROR for score in scores),
        "skip_sentence": sum(score.status == SKIPPED for score in scores),
        "valid_sentence": count,
        "bracketing_recall": recall,
        "bracketing_precision": precision,
        "bracketing_fmeasure": 2 * precision * recall / both if both else None,
        "complete_match": percent(sum(s.gold == s.test == s.matched for s in valid), count),
        "average_crossing": sums["crossing"] / count if count else 0.0,
        "no_crossing": percent(sum(s.crossing == 0 for s in valid), count),
        "2_or_less_crossing": percent(sum(s.crossing <= 2 for s in valid), count),
        "tagging_accuracy": percent(sums["tags"], sums["words"]),
    }


def percent(part: int, whole: int) -> float:
    """The percentage of a part, from 0 to 100; 0 of nothing."""
    return 100.0 * part / whole if whole else 0.0


RULE = "=" * 76
HEAD = (
    "  Sent.                        Matched  Bracket   Cross        Correct Tag\n"
    " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy\n" + RULE
)


def row(score: SentenceScore) -> str:
    """A sentence's line of EVALB's table."""
    return (
        f"{score.line:4d}  {score.length:3d}    {score.status:d}  "
        f"{percent(score.matched, score.gold):6.2f} {percent(score.matched, score.test):6.2f}"
        f"   {score.matched:3d}    {score.gold:3d}  {score.test:3d}    {score.crossing:3d}"
        f"   {score.words:4d}  {score.tags:4d}   {percent(score.tags, score.words):6.2f}"
    )


def total_row(scores: Sequence[SentenceScore]) -> str:
    """The table's last lines."""
    sums = (sum(getattr(score, name) for score in scores) for name in SUMMED)
    matched, gold, test, crossing, words, tags = sums
    brackets = ""
    if gold and test:
        brackets = (
            f"{'':16}{percent(matched, gold):6.2f} {percent(matched, test):6.2f} "
            f"{matched:6d} {gold:5d} {test:5d}  {crossing:5d}"
        )
    return f"{RULE}\n{brackets}  {words:5d} {tags:5d}   {percent(tags, words):6.2f}"


def as_text(parts: dict[str, dict[str, float | None]]) -> str:
    """Summaries as EVALB prints them, by their titles."""
    lines = ["=== Summary ==="]
    for title, part in parts.items():
        lines += ["", f"-- {title} --"]
        for key, value in part.items():
            form = "6d" if isinstance(value, int) else "6.2f"
            lines.append(f"{TITLES[key]:<25} = {math.nan if value is None else value:{form}}")
    return "\n".join(lines)
