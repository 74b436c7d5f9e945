"""Scores a parser and baselines as EVALB does, for recipes/parsing.sh; writes JSON.

    parsing_scores.py --train train.trees --gold test.trees --parsed parsed.trees \\
        --unconstrained unconstrained.trees --tagged tagged.trees \\
        [--valid-gold valid.trees --valid-parsed valid-parsed.trees] > f1.json

`all` and `len_40` are the JSON output of `vaswani evalb test.trees tagged.trees`. tagged.trees has
the parsed trees with gold tags, because EVALB ignores punctuation by its tag.
`malformed_percent` is the percentage of sentences for which the model without the constraint writes
no tree (an empty line of --unconstrained); `where_well_formed` compares the scores on the other
sentences. The baseline is a right-branching tree with the most frequent labels of the training set.
`valid` is EVALB's summary of the validation set, where it was parsed, too.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from vaswani_plugin.errors import UserError, run  # noqa: E402
from vaswani_plugin.metrics.evalb import (  # noqa: E402
    COLLINS,
    TABLE_4,
    SentenceScore,
    Totals,
    compare,
)
from vaswani_plugin.text.lines import read_lines  # noqa: E402
from vaswani_plugin.text.outputs import write_atomically  # noqa: E402
from vaswani_plugin.text.trees import (  # noqa: E402
    CLOSE,
    BadTree,
    Leaf,
    Open,
    Tree,
    leaves,
    parse_tree,
    read_trees,
    to_line,
)


def read_parsed(path: Path, gold: list[Tree]) -> list[Tree | None]:
    """Reads the tree of each line; None for an empty line.

    Raises:
        UserError: the number of lines differs from the number of gold trees, a line is no tree, or
            a tree has other words than its gold tree; names the line.
    """
    lines = list(read_lines(path))
    if len(lines) != len(gold):
        raise UserError(f"{path}: {len(lines)} lines for {len(gold)} gold trees")
    trees: list[Tree | None] = []
    for number, (line, right) in enumerate(zip(lines, gold, strict=True), 1):
        try:
            tree = parse_tree(line) if line else None
        except BadTree as error:
            raise UserError(f"{path}:{number}: {error}") from error
        if tree and [leaf.word for leaf in leaves(tree)] != [leaf.word for leaf in leaves(right)]:
            raise UserError(f"{path}:{number}: the gold tree has other words")
        trees.append(tree)
    return trees


def with_tags(tree: Tree, gold: Tree) -> Tree:
    """Replaces the leaves of a tree by those of the gold tree."""
    right = iter(leaves(gold))
    return [next(right) if isinstance(symbol, Leaf) else symbol for symbol in tree]


def score(gold: list[Tree], parsed: Iterable[Tree | None]) -> list[SentenceScore | None]:
    """Scores each sentence by EVALB's rules; None if there is no tree."""
    return [
        tree and compare(number, to_line(right), to_line(with_tags(tree, right)), COLLINS)
        for number, (right, tree) in enumerate(zip(gold, parsed, strict=True), 1)
    ]


def summary(scores: Iterable[SentenceScore | None]) -> dict[str, float | None]:
    """Computes EVALB's summary of the sentences that have a tree."""
    totals = Totals()
    for one in scores:
        if one is not None:
            totals.add(one)
    return totals.summary()


def f1(scores: Iterable[SentenceScore | None]) -> float | None:
    """Computes labelled F1 of the sentences that have a tree, in percent."""
    return summary(scores)["bracketing_fmeasure"]


def right_branching(gold: Tree, whole: str, inner: str) -> Tree:
    """Makes the right-branching tree of the gold words: all but the last word open a constituent.

    Args:
        gold: the tree with the words.
        whole: label of the constituent below the root.
        inner: label of the other constituents.
    """
    words = leaves(gold)
    tree: Tree = [gold[0], Open(whole), words[0]]
    for word in words[1:-1]:
        tree += [Open(inner), word]
    tree += words[1:][-1:]
    return tree + [CLOSE] * (len(words[1:-1]) + 2)


def commonest_labels(trees: Iterable[Tree]) -> tuple[str, str]:
    """Returns the most frequent label directly below the root, and of all constituents."""
    whole: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for tree in trees:
        labels = [symbol.label for symbol in tree[1:] if isinstance(symbol, Open)]
        every.update(labels)
        if isinstance(tree[1], Open):
            whole[tree[1].label] += 1
    return whole.most_common(1)[0][0], every.most_common(1)[0][0]


def tagging_accuracy(gold: list[Tree], parsed: list[Tree | None]) -> float:
    """Computes the percentage of words with their gold tag, including punctuation."""
    pairs = [
        (own.tag, right.tag)
        for tree, gold_tree in zip(parsed, gold, strict=True)
        if tree
        for own, right in zip(leaves(tree), leaves(gold_tree), strict=True)
    ]
    return 100 * sum(own == right for own, right in pairs) / max(len(pairs), 1)


def report(args: argparse.Namespace) -> dict[str, Any]:
    """Computes the whole report.

    Raises:
        UserError: a file is invalid.
        OSError: a file can't be read.
    """
    train, gold = list(read_trees(args.train)), list(read_trees(args.gold))
    parsed = read_parsed(args.parsed, gold)
    with write_atomically(args.tagged) as write:
        for tree, right in zip(parsed, gold, strict=True):
            write(to_line(with_tags(tree, right)) if tree else "")
    model = score(gold, parsed)
    short = [one for one in model if one and one.length <= COLLINS.cutoff]
    found: dict[str, Any] = {"all": summary(model), f"len_{COLLINS.cutoff}": summary(short)}
    if args.valid_gold:
        valid = list(read_trees(args.valid_gold))
        found["valid"] = summary(score(valid, read_parsed(args.valid_parsed, valid)))
    found["without_tree"] = sum(tree is None for tree in parsed)
    found["tagging_accuracy_with_punctuation"] = tagging_accuracy(gold, parsed)
    alone = score(gold, read_parsed(args.unconstrained, gold))
    missing = sum(one is None for one in alone)
    found["malformed_percent"] = 100 * missing / len(gold)
    both = [one for one, other in zip(model, alone, strict=True) if other]
    found["where_well_formed"] = {
        "sentences": len(both),
        "unconstrained_f1": f1(alone),
        "constrained_f1": f1(both),
    }
    labels = commonest_labels(train)
    branching = [right_branching(tree, *labels) for tree in gold]
    found["right_branching_f1"] = f1(score(gold, branching))
    return found


def as_text(found: dict[str, Any]) -> str:
    """Formats the table for people."""
    same = found["where_well_formed"]
    rows = [
        ("labelled F1", found["all"]["bracketing_fmeasure"]),
        ("  recall", found["all"]["bracketing_recall"]),
        ("  precision", found["all"]["bracketing_precision"]),
        ("  sentences of at most 40 words", found["len_40"]["bracketing_fmeasure"]),
        ("exact match", found["all"]["complete_match"]),
        ("tags, punctuation included", found["tagging_accuracy_with_punctuation"]),
        ("malformed without the constraint", found["malformed_percent"]),
        (f"F1 on the other {same['sentences']:,}, constrained", same["constrained_f1"]),
        ("  unconstrained", same["unconstrained_f1"]),
        ("right-branching trees, F1", found["right_branching_f1"]),
    ]
    if "valid" in found:
        rows.insert(4, ("  the validation set", found["valid"]["bracketing_fmeasure"]))
    rows += [(f"Table 4, WSJ section 23: {name}, {kind}", f1) for name, kind, f1 in TABLE_4]
    width = max(len(title) for title, _ in rows)
    values = ("-" if value is None else f"{value:6.2f}" for _, value in rows)
    return "\n".join(f"{row[0]:<{width}}  {value}" for row, value in zip(rows, values, strict=True))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("train", "gold", "parsed", "unconstrained"):
        parser.add_argument(f"--{name}", type=Path, required=True, metavar="TREES")
    parser.add_argument("--tagged", required=True, metavar="FILE", help="trees file to write")
    parser.add_argument("--valid-gold", type=Path, metavar="TREES")
    parser.add_argument("--valid-parsed", type=Path, metavar="TREES", help="with --valid-gold")
    print(json.dumps(report(parser.parse_args()), indent=2))


if __name__ == "__main__":
    run(main)
