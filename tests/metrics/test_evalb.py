"""EVALB's scores: by hand, against counting on nltk's trees, and its own recorded output."""

import os
import random
from collections import Counter, defaultdict
from itertools import count, pairwise
from pathlib import Path

import pytest
from nltk.tree import Tree as NltkTree

from tests.support.random_trees import random_tree
from vaswani_plugin.metrics.evalb import (
    COLLINS,
    ERROR,
    Parameters,
    SentenceScore,
    compare,
    parse_parameters,
    summary,
)
from vaswani_plugin.text.trees import Leaf, Tree, leaves, to_line

DATA = Path(os.environ.get("VASWANI_DATA", "unset-VASWANI_DATA")) / "evalb"
GOLD = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks) (ADVP (RB now))) (. .)))"
CROSSING = "(TOP (S (DT the) (X (NN dog) (VBZ barks)) (ADVP (RB now)) (. .)))"
STOPPED = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks) (ADVP (RB now)) (. !)) (X)))"


def score(gold: str, test: str, parameters: Parameters = COLLINS) -> SentenceScore:
    return compare(1, gold, test, parameters)


def counts(r: SentenceScore) -> tuple[int, ...]:
    """status, matched, gold, test, crossing, words, tags."""
    return r.status, r.matched, r.gold, r.test, r.crossing, r.words, r.tags


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (GOLD, (0, 4, 4, 4, 0, 4, 4)),
        # Another label; function labels and the root's name don't count.
        (GOLD.replace("(NP ", "(QP-X ").replace("TOP", "TOP-1"), (0, 3, 4, 4, 0, 4, 4)),
        (GOLD.replace("ADVP", "PRT"), (0, 4, 4, 4, 0, 4, 4)),
        # (dog barks) crosses both NP and VP, and counts once.
        (CROSSING, (0, 2, 4, 3, 1, 4, 4)),
        # A bracket twice over the same words is matched once.
        (GOLD.replace("(ADVP (RB now))", "(ADVP (ADVP (RB now)))"), (0, 4, 4, 5, 0, 4, 4)),
        # The final stop has no say, wherever it hangs; empty brackets neither.
        (STOPPED, (0, 4, 4, 4, 0, 4, 4)),
        ("(DT the) (NN dog) (VBZ barks) (RB now)", (0, 0, 4, 0, 0, 4, 4)),
        ("", (2, 0, 0, 0, 0, 0, 0)),
        ("(TOP (. .))", (2, 0, 0, 0, 0, 0, 0)),
        # The stop tagged as a word: the trees differ in length.
        (GOLD.replace("(. .)", "(NN .)"), (1, 0, 0, 0, 0, 0, 0)),
        ("no tree at all", (1, 0, 0, 0, 0, 0, 0)),
    ],
)
def test_by_hand(test, expected):
    assert counts(score(GOLD, test)) == expected


@pytest.mark.parametrize(
    ("gold", "test", "messages"),
    [
        (GOLD, GOLD.replace("now", "then"), ["Words unmatch (now|then)"]),
        (GOLD, "(S (DT the))", ["Length unmatch (4|1)"]),
        # Of a line that can't be read nothing else is said.
        (GOLD, "(S (DT the) (RB right now))", ["Reading sentence"]),
        (GOLD, GOLD[:-1], ["Bracketing is unbalanced (too many open bracket)"]),
        (GOLD, GOLD + ")", ["Bracketing unbalance (too many close bracket)"]),
    ],
    ids=range(5),
)
def test_messages_are_those_of_evalb(gold, test, messages):
    assert (score(gold, test).status, score(gold, test).errors) == (ERROR, messages)


def test_parameters_decide():
    other = GOLD.replace("(NP ", "(X ").replace("dog", "Dog")
    assert score(GOLD, other).status == 1
    words = Parameters(equal_words=frozenset({("dog", "Dog"), ("Dog", "dog")}))
    assert counts(score(GOLD, other, words)) == (0, 4, 5, 5, 0, 5, 5)
    unlabelled = Parameters(equal_words=words.equal_words, label=0)
    assert counts(score(GOLD, other, unlabelled)) == (0, 5, 5, 5, 0, 5, 5)
    shorter = Parameters(delete_for_length=frozenset({"DT", "."}))
    assert (score(GOLD, GOLD).length, score(GOLD, GOLD, shorter).length) == (5, 3)
    # EQ_LABEL reaches into DELETE_LABEL for brackets, not for words.
    both = frozenset({("ADVP", "VP"), ("VP", "ADVP"), ("NN", "VP"), ("VP", "NN")})
    deleting = Parameters(delete=frozenset({"VP"}), equal_labels=both)
    assert counts(score(GOLD, GOLD, deleting)) == (0, 3, 3, 3, 0, 5, 5)


def test_a_quotation_mark_that_one_side_deletes_is_put_back():
    gold = "(S (NP (`` ') (NN a)) (VP (VB b)))"
    test = "(S (NP (POS ') (NN a)) (VP (VB b)))"
    assert counts(score(gold, test, Parameters(delete=frozenset({"``"}))))[0] == 1
    quotes = Parameters(delete=frozenset({"``"}), quotes=frozenset({"``", "POS"}))
    assert counts(score(gold, test, quotes)) == (0, 3, 3, 3, 0, 3, 2)
    assert counts(score(test, gold, quotes)) == (0, 3, 3, 3, 0, 3, 2)
    # The first that comes back moves the second on.
    gold = "(S (NP (`` ') (NN a) (`` ')) (VP (VB b)))"
    assert counts(score(gold, gold.replace("``", "POS"), quotes)) == (0, 3, 3, 3, 0, 4, 2)


def reference(gold: NltkTree, test: NltkTree) -> tuple[int, ...]:
    """matched, gold, test, crossing, tags by recursion, multisets and sets of words."""

    def brackets(tree: NltkTree, start: int = 0) -> list[tuple[str, int, int]]:
        found, position = [], start
        for child in tree:
            if isinstance(child[0], str):
                position += 1
            else:
                found += brackets(child, position)
                position += len(child.leaves())
        return [(tree.label().split("-")[0].split("=")[0], start, position), *found]

    ours, theirs = brackets(gold), brackets(test)
    matched = sum((Counter(ours) & Counter(theirs)).values())
    spans = [set(range(start, end)) for _, start, end in ours]
    crossing = sum(
        any(span & words and span - words and words - span for span in spans)
        for words in (set(range(start, end)) for _, start, end in theirs)
    )
    tags = sum(a == b for a, b in zip(gold.pos(), test.pos(), strict=True))
    return matched, len(ours), len(theirs), crossing, tags


def numbered(tree: Tree, rng: random.Random) -> Tree:
    """The tree with its words in order: w0, w1, ..., and one of two tags each."""
    number = count()
    return [Leaf(rng.choice("AB"), f"w{next(number)}") if isinstance(s, Leaf) else s for s in tree]


def test_random_pairs_of_trees():
    rng = random.Random(5)
    by_size: dict[int, list[str]] = defaultdict(list)
    for _ in range(1000):
        tree = numbered(random_tree(rng, ["S", "NP", "VP", "NP-X"], leaves=8), rng)
        by_size[len(leaves(tree))].append(to_line(tree))
    crossings = matches = 0
    for size, lines in by_size.items():
        for gold, test in pairwise(lines):
            result = score(gold, test, Parameters())
            expected = reference(NltkTree.fromstring(gold), NltkTree.fromstring(test))
            assert counts(result) == (0, *expected[:4], size, expected[4])
            crossings += result.crossing > 0
            matches += result.matched > 1
    assert crossings > 50 and matches > 50


def test_the_summary_counts_crossing_sentences():
    found = summary([SentenceScore(1, 5, crossing=crossings) for crossings in range(4)])
    assert (found["no_crossing"], found["2_or_less_crossing"]) == (25, 75)


PARAMETERS = """\
# a comment
DEBUG 1
MAX_ERROR 7
CUTOFF_LEN 20
LABELED 0
DELETE_LABEL TOP
DELETE_LABEL #
DELETE_LABEL_FOR_LENGTH -NONE-
QUOTE_LABEL ``
QUOTE_TERM POS
EQ_LABEL T TT
EQ_WORD  This this
"""


def test_every_keyword_is_read():
    assert parse_parameters(PARAMETERS.split("\n"), "x.prm") == Parameters(
        **{"cutoff": 20, "label": 0},
        delete=frozenset({"TOP", "#"}),
        delete_for_length=frozenset({"-NONE-"}),
        quotes=frozenset({"``", "POS"}),
        equal_labels=frozenset({("T", "TT"), ("TT", "T")}),
        equal_words=frozenset({("This", "this"), ("this", "This")}),
    )
    assert parse_parameters([], "x.prm") == Parameters()
    for line in ("EQ_LABEL A", "LABELED 2"):
        with pytest.raises(ValueError, match=f"x.prm:2: '{line}': must be a keyword"):
            parse_parameters(["# x", line], "x.prm")


@pytest.mark.shared_data
def test_the_built_in_parameters_are_those_of_the_file():
    path = DATA / "COLLINS.prm"
    if not path.is_file():
        pytest.skip(f"NOT TESTED: no {path} (set VASWANI_DATA to the folder of corpora)")
    assert parse_parameters(path.read_text().split("\n"), "COLLINS.prm") == COLLINS
