"""Scores a parser and a baseline as EVALB does, for recipes/parsing.sh; writes JSON.

    parsing_scores.py --train train.trees --gold test.trees --parsed parsed.trees \\
        --unconstrained unconstrained.trees --tagged tagged.trees > f1.json

`all` and `len_40` are the JSON output of `vaswani evalb test.trees tagged.trees`; a word with a
blank, an error there, is a word here. tagged.trees has the parsed trees with gold tags, because
EVALB ignores punctuation by its tag. `malformed_percent` is the percentage of sentences for which
the model without the constraint writes no tree (an empty line). The baseline is a right-branching
tree with the commonest labels of the training set.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from vaswani_plugin.errors import UserError  # noqa: E402
from vaswani_plugin.files.lines import read_lines  # noqa: E402
from vaswani_plugin.files.outputs import write_atomically  # noqa: E402
from vaswani_plugin.files.programs import run  # noqa: E402
from vaswani_plugin.metrics.evalb import COLLINS, compare, summary  # noqa: E402
from vaswani_plugin.text.linearization import escape_space  # noqa: E402
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


def read_tagged(path: Path, gold: list[Tree]) -> list[Tree | None]:
    """The tree of each line, with the leaves of its gold tree; None for an empty line."""
    lines = list(read_lines(path))
    if len(lines) != len(gold):
        raise UserError(f"{path}: {len(lines)} lines for {len(gold)} gold trees")
    trees: list[Tree | None] = []
    for number, (line, right) in enumerate(zip(lines, gold, strict=True), 1):
        try:
            tree = parse_tree(line) if line else None
        except BadTree as error:
            raise UserError(f"{path}:{number}: {error}") from error
        tagged, words = iter(leaves(right)), [leaf.word for leaf in leaves(right)]
        if tree and [leaf.word for leaf in leaves(tree)] != words:
            raise UserError(f"{path}:{number}: the gold tree has other words")
        trees.append(tree and [next(tagged) if isinstance(each, Leaf) else each for each in tree])
    return trees


def scored(
    gold: list[Tree], trees: Iterable[Tree | None], longest: int | None = None
) -> dict[str, float | None]:
    """EVALB's summary of the sentences that have a tree, and at most `longest` words."""

    def line(tree: Tree) -> str:  # a word that holds a blank is one word
        each = (Leaf(x.tag, escape_space(x.word)) if isinstance(x, Leaf) else x for x in tree)
        return to_line(each)

    scores = [
        compare(number, line(right), line(tree), COLLINS)
        for number, (right, tree) in enumerate(zip(gold, trees, strict=True), 1)
        if tree
    ]
    return summary([score for score in scores if longest is None or score.length <= longest])


def right_branching(gold: Tree, whole: str, inner: str) -> Tree:
    """The right-branching tree of the gold words: all but the last word open a constituent.

    `whole` is the label of the one below the root, `inner` that of the others.
    """
    first, *words = leaves(gold)
    tree: Tree = [gold[0], Open(whole), first]
    for word in words[:-1]:
        tree += [Open(inner), word]
    return tree + words[-1:] + [CLOSE] * (len(words[:-1]) + 2)


def commonest_labels(trees: Iterable[Tree]) -> tuple[str, str]:
    """The most frequent label directly below the root, and of all constituents."""
    trees = list(trees)
    every = Counter(x.label for tree in trees for x in tree[1:] if isinstance(x, Open))
    whole = Counter(tree[1].label for tree in trees if isinstance(tree[1], Open))
    return whole.most_common(1)[0][0], every.most_common(1)[0][0]


def report(args: argparse.Namespace) -> dict[str, Any]:
    """Computes the whole report, and writes tagged.trees."""
    gold = list(read_trees(args.gold))
    parsed, alone = (read_tagged(path, gold) for path in (args.parsed, args.unconstrained))
    with write_atomically(args.tagged) as write:
        for tree in parsed:
            write(to_line(tree) if tree else "")
    labels = commonest_labels(read_trees(args.train))
    branching = scored(gold, [right_branching(tree, *labels) for tree in gold])
    return {
        "all": scored(gold, parsed),
        f"len_{COLLINS.cutoff}": scored(gold, parsed, COLLINS.cutoff),
        "without_tree": parsed.count(None),
        "malformed_percent": 100 * alone.count(None) / len(gold),
        "unconstrained_f1": scored(gold, alone)["bracketing_fmeasure"],
        "right_branching_f1": branching["bracketing_fmeasure"],
    }


def main() -> None:
    """Command line."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    for name in ("train", "gold", "parsed", "unconstrained"):
        parser.add_argument(f"--{name}", type=Path, required=True, metavar="TREES")
    parser.add_argument("--tagged", required=True, metavar="FILE", help="trees file to write")
    print(json.dumps(report(parser.parse_args()), indent=2))


if __name__ == "__main__":
    run(main)
