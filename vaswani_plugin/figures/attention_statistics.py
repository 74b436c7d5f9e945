"""Statistics of each head's attention over a corpus: do heads specialize, as Figure 5 says?

Axes: N layers, H heads, T queries, S keys.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from tabulate import tabulate

from vaswani_plugin.inference.attention import Attention

STATISTICS = {
    "distance": "mean distance |query - key|, in tokens",
    "entropy": "entropy, in bits",
    "previous": "share on the previous token",
    "same": "share on the same token",
    "next": "share on the next token",
}


def query_sums(weights: np.ndarray) -> dict[str, np.ndarray]:
    """Each statistic, summed over the queries of a sentence.

    Args:
        weights: (N, H, T, S), each row summing to 1.

    Returns:
        (N, H) for each key of `STATISTICS`. Tokens are compared by position; between two languages
        this measures how monotonic the attention is. A missing neighbour gets 0.
    """
    weights = weights.astype(np.float64)
    queries, keys = weights.shape[-2:]
    distance = np.abs(np.arange(queries)[:, None] - np.arange(keys))
    logarithms = np.log2(weights, where=weights > 0, out=np.zeros_like(weights))
    return {
        "distance": (weights * distance).sum((-2, -1)),
        "entropy": -(weights * logarithms).sum((-2, -1)),
        **{
            name: np.diagonal(weights, offset, -2, -1).sum(-1)
            for name, offset in (("previous", -1), ("same", 0), ("next", 1))
        },
    }


def corpus_statistics(sentences: Iterable[Attention]) -> dict[str, Any]:
    """The statistics, averaged over all queries.

    Returns:
        `sentences`, and `attention`: for each kind `queries` (their number) and the keys of
        `STATISTICS`, each an (N, H) array.

    Raises:
        ValueError: no sentences.
    """
    count = 0
    sums: dict[str, dict[str, Any]] = {}
    for attention in sentences:
        count += 1
        for kind, heads in attention.kinds.items():
            found = sums.setdefault(kind, {"queries": 0})
            found["queries"] += len(heads.queries)
            for name, value in query_sums(heads.weights).items():
                found[name] = found.get(name, 0) + value
    if not count:
        raise ValueError("--corpus holds no sentences; give more text")
    means = {
        kind: {
            name: value if name == "queries" else value / found["queries"]
            for name, value in found.items()
        }
        for kind, found in sums.items()
    }
    return {"sentences": count, "attention": means}


def as_table(statistics: dict[str, Any]) -> str:
    """The statistics as a table, one row a head."""
    header = ["attention", "layer", "head", *STATISTICS]
    table = tabulate(_rows(statistics["attention"]), header, floatfmt=".3f")
    legend = "\n".join(f"{name:<9} {meaning}" for name, meaning in STATISTICS.items())
    return f"{table}\n\n{statistics['sentences']} sentences\n{legend}"


def _rows(attention: dict[str, dict[str, Any]]) -> Iterator[list[Any]]:
    for kind, found in attention.items():
        layers, heads = found["distance"].shape
        for layer in range(layers):
            for head in range(heads):
                values = (float(found[name][layer, head]) for name in STATISTICS)
                yield [kind, layer + 1, head + 1, *values]
