"""Statistics of each head's attention over a corpus: do heads specialize, as Figure 5 says?

Axes: N layers, H heads, T queries, S keys.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from vaswani_plugin.figures.figures import new_figure, save_figure
from vaswani_plugin.inference.attention import KINDS, Attention
from vaswani_plugin.text.outputs import write_json

STATISTICS = {
    "distance": "mean distance |query - key|, in tokens",
    "entropy": "entropy, in bits",
    "previous": "share on the previous token",
    "same": "share on the same token",
    "next": "share on the next token",
}


def _query_sums(weights: np.ndarray) -> dict[str, np.ndarray]:
    """Each statistic of weights (N, H, T, S), summed over the queries of a sentence: (N, H).

    Tokens are compared by position; between two languages this measures how monotonic the attention
    is. A missing neighbour gets 0.
    """
    weights = weights.astype(np.float64)
    queries, keys = weights.shape[-2:]
    distance = np.abs(np.arange(queries)[:, None] - np.arange(keys))
    logarithms = np.log2(weights, where=weights > 0, out=np.zeros_like(weights))
    neighbours = {
        name: np.diagonal(weights, offset, -2, -1).sum(-1)
        for name, offset in (("previous", -1), ("same", 0), ("next", 1))
    }
    return {
        "distance": (weights * distance).sum((-2, -1)),
        "entropy": -(weights * logarithms).sum((-2, -1)),
        **neighbours,
    }


def corpus_statistics(sentences: Iterable[Attention]) -> dict[str, Any]:
    """The statistics, averaged over all queries.

    Returns:
        `sentences`, and `attention`: for each kind `queries` (their number) and the keys of
        `STATISTICS`, each a list of N lists of H numbers.

    Raises:
        ValueError: no sentences.
    """
    count = 0
    queries: dict[str, int] = {}
    sums: dict[str, dict[str, Any]] = {}
    for attention in sentences:
        count += 1
        for kind, heads in attention.kinds.items():
            queries[kind] = queries.get(kind, 0) + len(heads.queries)
            found = sums.setdefault(kind, dict.fromkeys(STATISTICS, 0))
            for name, value in _query_sums(heads.weights).items():
                found[name] = found[name] + value
    if not count:
        raise ValueError("--corpus holds no sentences; give more text")
    means = {
        kind: {"queries": queries[kind]}
        | {name: (value / queries[kind]).tolist() for name, value in found.items()}
        for kind, found in sums.items()
    }
    return {"sentences": count, "attention": means}


def as_table(statistics: dict[str, Any]) -> str:
    """The result of `corpus_statistics` as a table, one row a head."""
    from tabulate import tabulate

    rows = [
        [kind, layer + 1, head + 1, *(found[name][layer][head] for name in STATISTICS)]
        for kind, found in statistics["attention"].items()
        for layer, heads in enumerate(found["distance"])
        for head in range(len(heads))
    ]
    table = tabulate(rows, ["attention", "layer", "head", *STATISTICS], floatfmt=".3f")
    legend = "\n".join(f"{name:<9} {meaning}" for name, meaning in STATISTICS.items())
    return f"{table}\n\n{statistics['sentences']} sentences\n{legend}"


def write_statistics(statistics: dict[str, Any], outputs: list[Path]) -> None:
    """Writes the result of `corpus_statistics` to files; the suffix is .json or a picture's.

    Raises:
        ValueError: matplotlib is not installed.
        OSError: a file can't be written.
    """
    for path in outputs:
        if path.suffix == ".json":
            write_json(path, statistics, indent=None)
        else:
            _draw(statistics, path)


def _draw(statistics: dict[str, Any], output: Path) -> None:
    """Draws a heat map of layers by heads for every attention (rows) and statistic (columns)."""
    attention = statistics["attention"]
    layers = max(len(found["distance"]) for found in attention.values())
    heads = max(len(found["distance"][0]) for found in attention.values())
    size = len(STATISTICS) * (1.6 + 0.3 * heads), len(attention) * (1.2 + 0.3 * layers)
    figure = new_figure(*size)
    panels = figure.subplots(len(attention), len(STATISTICS), squeeze=False)
    for row, (kind, found) in zip(panels, attention.items(), strict=True):
        for panel, (name, meaning) in zip(row, STATISTICS.items(), strict=True):
            top = None if name in ("distance", "entropy") else 1
            image = panel.imshow(found[name], cmap="viridis", vmin=0, vmax=top)
            figure.colorbar(image, ax=panel)
            panel.set_title(f"{KINDS[kind]}:\n{meaning}", fontsize=7, wrap=True)
            count, width = np.shape(found[name])
            panel.set_xticks(range(width), range(1, width + 1), fontsize=6)
            panel.set_yticks(range(count), range(1, count + 1), fontsize=6)
            panel.set(xlabel="head", ylabel="layer")
    figure.suptitle(f"attention heads over {statistics['sentences']} sentences")
    save_figure(figure, output)
