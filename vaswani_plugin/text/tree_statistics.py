"""Counts of a treebank: its size, its labels, and the lengths of its linearized trees."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from vaswani_plugin.text.trees import Leaf, Open, Tree


def tree_measures(tree: Tree) -> dict[str, int]:
    """Counts a tree's words and brackets, its depth in brackets and its longest run of openings."""
    depth = deepest = run = longest = words = brackets = 0
    for symbol in tree:
        is_opening = isinstance(symbol, Open)
        run = run + 1 if is_opening else 0
        longest = max(longest, run)
        if is_opening:
            brackets += 1
            depth += 1
            deepest = max(deepest, depth)
        elif isinstance(symbol, Leaf):
            words += 1
        else:
            depth -= 1
    return {"words": words, "brackets": brackets, "depth": deepest, "openings_in_a_row": longest}


def statistics(trees: Iterable[Tree]) -> dict[str, Any]:
    """Computes sums and maxima over trees.

    Returns:
        trees, words, brackets; words_mean, words_max, depth_max, openings_in_a_row_max; symbols_max
        (symbols of a linearized tree) and symbols_over_words_max (symbols minus words; the limit of
        the search must be above it); labels and tags with their counts, most frequent first.
    """
    totals: Counter[str] = Counter()
    maxima: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    tags: Counter[str] = Counter()
    for tree in trees:
        found = tree_measures(tree)
        symbols = found["words"] + 2 * found["brackets"]
        found |= {"symbols": symbols, "symbols_over_words": symbols - found["words"]}
        totals.update(found)
        totals["trees"] += 1
        maxima |= Counter(found)
        labels.update(symbol.label for symbol in tree if isinstance(symbol, Open))
        tags.update(symbol.tag for symbol in tree if isinstance(symbol, Leaf))
    return {
        **{name: totals[name] for name in ("trees", "words", "brackets")},
        "words_mean": totals["words"] / max(totals["trees"], 1),
        **{
            f"{name}_max": maxima[name]
            for name in ("words", "depth", "openings_in_a_row", "symbols", "symbols_over_words")
        },
        "labels": dict(labels.most_common()),
        "tags": dict(tags.most_common()),
    }


def as_text(result: dict[str, Any]) -> str:
    """Formats the statistics for people: one number a line, all labels on a line, all tags too."""
    lines = []
    for name, value in result.items():
        if isinstance(value, dict):
            counts = "  ".join(f"{label or '(none)'} {count:,}" for label, count in value.items())
            lines.append(f"{name}: {len(value)}: {counts}")
        else:
            number = f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
            lines.append(f"{name.replace('_', ' ')}: {number}")
    return "\n".join(lines)
