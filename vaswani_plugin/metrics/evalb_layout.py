"""EVALB's output format: its table, its summary, and the details of a sentence under DEBUG."""

import math
from itertools import zip_longest

from vaswani_plugin.metrics.bracketing import SentenceScore, Totals, percent
from vaswani_plugin.metrics.evalb_trees import Bracket, Word

RULE = "=" * 76
HEAD = (
    "  Sent.                        Matched  Bracket   Cross        Correct Tag\n"
    " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy\n" + RULE
)
# A line of the summary, its key, and how its value is printed.
_SUMMARY = (
    ("Number of sentence", "sentence", "6d"),
    ("Number of Error sentence", "error_sentence", "6d"),
    ("Number of Skip  sentence", "skip_sentence", "6d"),
    ("Number of Valid sentence", "valid_sentence", "6d"),
    ("Bracketing Recall", "bracketing_recall", "6.2f"),
    ("Bracketing Precision", "bracketing_precision", "6.2f"),
    ("Bracketing FMeasure", "bracketing_fmeasure", "6.2f"),
    ("Complete match", "complete_match", "6.2f"),
    ("Average crossing", "average_crossing", "6.2f"),
    ("No crossing", "no_crossing", "6.2f"),
    ("2 or less crossing", "2_or_less_crossing", "6.2f"),
    ("Tagging accuracy", "tagging_accuracy", "6.2f"),
)


def row(score: SentenceScore) -> str:
    """A sentence's line of the table."""
    return (
        f"{score.line:4d}  {score.length:3d}    {score.status:d}  "
        f"{percent(score.matched, score.gold):6.2f} {percent(score.matched, score.test):6.2f}"
        f"   {score.matched:3d}    {score.gold:3d}  {score.test:3d}    {score.crossing:3d}"
        f"   {score.words:4d}  {score.tags:4d}   {percent(score.tags, score.words):6.2f}"
    )


def total_row(totals: Totals) -> str:
    """The table's last lines."""
    brackets = ""
    if totals.gold and totals.test:
        brackets = (
            f"{'':16}{percent(totals.matched, totals.gold):6.2f} "
            f"{percent(totals.matched, totals.test):6.2f} "
            f"{totals.matched:6d} {totals.gold:5d} {totals.test:5d}  {totals.crossing:5d}"
        )
    accuracy = percent(totals.tags, totals.words)
    return f"{RULE}\n{brackets}  {totals.words:5d} {totals.tags:5d}   {accuracy:6.2f}"


def summary(totals: Totals, short: Totals, cutoff: int) -> str:
    """Both summaries: of all sentences, and of sentences up to the cut-off length."""
    lines = ["=== Summary ==="]
    for title, part in (("All", totals), (f"len<={cutoff}", short)):
        lines += ["", f"-- {title} --"]
        values = part.summary()
        for name, key, form in _SUMMARY:
            value = math.nan if values[key] is None else values[key]
            lines.append(f"{name:<25} = {value:{form}}")
    return "\n".join(lines)


def details(score: SentenceScore) -> str:
    """The output of DEBUG for a sentence: the words and brackets of both trees."""
    gold, test = score.gold_tree, score.test_tree
    lines = [
        f"-<1>---(wn1={len(gold.words):3d}, bn1={len(gold.brackets):3d})-           "
        f"-<2>---(wn2={len(test.words):3d}, bn2={len(test.brackets):3d})-"
    ]
    for number, (one, other) in enumerate(zip_longest(gold.words, test.words)):
        lines.append(f"{_word(number, one):<40}{_word(number, other)}")
    lines.append("")
    for number, (one, other) in enumerate(zip_longest(gold.brackets, test.brackets)):
        lines.append(f"{_bracket(number, one):<32}{_bracket(number, other)}")
    return "\n".join([*lines, "", "========"])


def _word(number: int, word: Word | None) -> str:
    if word is None:
        return ""
    return f"{number:3d} : {word.result} : {word.tag:<6}  {word.word:<16}"


def _bracket(number: int, bracket: Bracket | None) -> str:
    if bracket is None:
        return ""
    span = f"{bracket.start:3d}  {bracket.end:3d}"
    return f"{number:3d} : {bracket.result} : {span}  {bracket.label:<6}"
