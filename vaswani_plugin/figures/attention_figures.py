"""Pictures of `vaswani attention`: the paper's Figures 3 to 5, and heat maps of heads.

Axes: H heads, T queries, S keys.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vaswani_plugin.figures.figures import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FAINTEST = 0.02
"""Weights below it are not drawn: their lines would be invisible."""
# A "$" in a sentence is a dollar and not the start of a formula.
PLAIN = {"parse_math": False}


def draw_heads(
    weights: np.ndarray,
    heads: Sequence[int],
    queries: list[str],
    keys: list[str],
    title: str,
    output: Path,
) -> None:
    """Draw one heat map a head, dark where the weight is high.

    Args:
        weights: (H, T, S), each row summing to 1.
        heads: which of them, from 1 on.
        queries: T labels, top to bottom.
        keys: S labels, left to right.
        title: text above the picture.
        output: file to write; its suffix chooses the format.

    Raises:
        ValueError: matplotlib is not installed.
        OSError: the file can't be written.
    """
    columns = min(len(heads), 4)
    rows = -(-len(heads) // columns)
    cell = min(0.22, 15 / max(len(queries), len(keys)))  # inches; matplotlib's pictures have limits
    small = 7 * cell / 0.22
    width, height = 1.2 + cell * len(keys), 1.6 + cell * len(queries)
    figure = new_figure(columns * width, rows * height)
    for number, head in enumerate(heads):
        panel = figure.add_subplot(rows, columns, number + 1)
        # With square cells, the longest labels could fall outside the picture.
        panel.imshow(weights[head - 1], cmap="Blues", vmin=0, vmax=1, aspect="auto")
        panel.set_title(f"head {head}", fontsize=9)
        panel.set_xticks(range(len(keys)), keys, rotation=90, fontsize=small, **PLAIN)
        shown = queries if number % columns == 0 else [""] * len(queries)
        panel.set_yticks(range(len(queries)), shown, fontsize=small, **PLAIN)
    figure.suptitle(title)
    save_figure(figure, output)


def draw_lines(
    weights: np.ndarray,
    heads: Sequence[int],
    queries: list[str],
    keys: list[str],
    title: str,
    output: Path,
    only: Sequence[int] | None = None,
) -> None:
    """Draw Figures 3 to 5: two columns of tokens, queries on the left, and lines between them.

    The opacity of a line shows its weight, the colour its head.

    Args:
        only: numbers of the queries whose lines are drawn; None draws all.
        weights, heads, queries, keys, title, output: as for `draw_heads`.

    Raises:
        ValueError: matplotlib is not installed.
        OSError: the file can't be written.
    """
    from matplotlib.collections import LineCollection

    longest = max(map(len, [*queries, *keys]))
    figure = new_figure(4 + 0.2 * longest, 1.2 + 0.22 * max(len(queries), len(keys)))
    panel = figure.add_subplot()
    colours = head_colours(weights.shape[0])
    shown = range(len(queries)) if only is None else only
    for head in heads:
        kept = [(q, k) for q in shown for k in np.flatnonzero(weights[head - 1, q] >= FAINTEST)]
        lines = [((0, q), (1, k)) for q, k in kept]
        # A sum of merged weights may exceed 1 by a rounding error, which matplotlib refuses.
        opacities = [min(1.0, float(weights[head - 1, q, k])) for q, k in kept]
        rgba = [(*colours[head - 1], opacity) for opacity in opacities]
        panel.add_collection(LineCollection(lines, colors=rgba, linewidths=2.5))
        panel.plot([], [], color=colours[head - 1], linewidth=4, label=f"head {head}")
    _write_column(panel, queries, -0.03, "right", None if only is None else set(only))
    _write_column(panel, keys, 1.03, "left", None)
    panel.set(xlim=(0, 1), ylim=(max(len(queries), len(keys)) - 0.5, -0.5))
    panel.axis("off")
    panel.set_title(title, fontsize=10)
    figure.legend(loc="outside lower center", ncols=4, fontsize=7, frameon=False)
    save_figure(figure, output)


def head_colours(heads: int) -> list[tuple[float, float, float]]:
    """One RGB colour a head, with hues at equal distances."""
    from matplotlib.colors import hsv_to_rgb

    return [tuple(map(float, hsv_to_rgb((head / heads, 0.8, 0.8)))) for head in range(heads)]


def _write_column(
    panel: "Axes", labels: list[str], x: float, side: str, marked: set[int] | None
) -> None:
    for y, label in enumerate(labels):
        is_faded = marked is not None and y not in marked
        colour = "#999999" if is_faded else "black"
        panel.text(x, y, label, ha=side, va="center", fontsize=9, color=colour, **PLAIN)
