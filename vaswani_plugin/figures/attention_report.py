"""Attention of a sentence or over a corpus as files: pictures, a page to explore, numbers.

The pictures are the paper's Figures 3 to 5 and heat maps of heads. The statistics of each head over
a corpus answer: do heads specialize, as Figure 5 says?

Axes: N layers, H heads, T queries, S keys.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from vaswani_plugin.errors import UserError
from vaswani_plugin.figures.attention_page import page
from vaswani_plugin.figures.figures import new_figure, save_figure
from vaswani_plugin.files.lines import read_lines, read_pairs
from vaswani_plugin.files.outputs import write_bytes_atomically, write_json
from vaswani_plugin.inference.attention import KINDS, Attention
from vaswani_plugin.inference.translator import Translator
from vaswani_plugin.text.raw_text import composed

FAINTEST = 0.02  # weights below it are not drawn: their lines would be invisible
MOST_LETTERS = 40  # of a label in a picture; the rest of it is cut off
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
    """Draw one heat map a head, dark where the weight is high, into a file of any picture's suffix.

    `weights` are (H, T, S), each row summing to 1; `heads` says which of them, from 1 on. `queries`
    are T labels, top to bottom, `keys` S labels, left to right.
    """
    columns = min(len(heads), 4)
    rows = -(-len(heads) // columns)
    cell = min(0.22, 15 / max(len(queries), len(keys)))  # inches; matplotlib's pictures have limits
    small = 7 * cell / 0.22
    queries, keys = _cut(queries), _cut(keys)
    letter = 0.075 * cell / 0.22  # inches; the labels need room outside the panels
    width = columns * max(1.2 + cell * len(keys), 1.4) + letter * max(map(len, queries))
    height = rows * (0.8 + cell * len(queries) + letter * max(map(len, keys))) + 0.5
    figure = new_figure(width, height)
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


def _cut(labels: Sequence[str]) -> list[str]:
    """Labels of at most `MOST_LETTERS`, so that a picture of long ones is not all label."""
    return [x if len(x) <= MOST_LETTERS else x[: MOST_LETTERS - 1] + "…" for x in labels]


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

    Opacity shows the weight, colour the head. `only` are the queries whose lines are drawn, or all.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.colors import hsv_to_rgb

    queries, keys = _cut(queries), _cut(keys)
    longest = max(map(len, [*queries, *keys]))
    figure = new_figure(4 + 0.2 * longest, 1.2 + 0.22 * max(len(queries), len(keys)))
    panel = figure.add_subplot()
    hues = np.arange(len(weights)) / len(weights)  # at equal distances
    colours = [tuple(map(float, hsv_to_rgb((hue, 0.8, 0.8)))) for hue in hues]
    shown = range(len(queries)) if only is None else only
    for head in heads:
        kept = [(q, k) for q in shown for k in np.flatnonzero(weights[head - 1, q] >= FAINTEST)]
        lines = [np.array(((0, q), (1, k))) for q, k in kept]
        # A sum of merged weights may exceed 1 by a rounding error, which matplotlib refuses.
        opacities = [min(1.0, float(weights[head - 1, q, k])) for q, k in kept]
        rgba = [(*colours[head - 1], opacity) for opacity in opacities]
        panel.add_collection(LineCollection(lines, colors=rgba, linewidths=2.5))
        panel.plot([], [], color=colours[head - 1], linewidth=4, label=f"head {head}")
    for labels, x, side in ((queries, -0.03, "right"), (keys, 1.03, "left")):
        for y, label in enumerate(labels):
            is_faded = labels is queries and y not in shown
            style: Any = {"color": "#999999" if is_faded else "black", **PLAIN}
            panel.text(x, y, label, ha=side, va="center", fontsize=9, **style)
    panel.set(xlim=(0, 1), ylim=(max(len(queries), len(keys)) - 0.5, -0.5))
    panel.axis("off")
    panel.set_title(title, fontsize=10)
    figure.legend(loc="outside lower center", ncols=4, fontsize=7, frameon=False)
    save_figure(figure, output)


def write_sentence(
    attention: Attention,
    outputs: list[Path],
    kind: str = "cross",
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    lines: bool = False,
    word: str | None = None,
) -> None:
    """Write the attention of a sentence to files; the suffix is .html, .json, or a picture's.

    `kind` is a key of `KINDS`. `layer` and `heads` count from 1; None is the last one, and all.
    `lines` draws lines between tokens (Figures 3 to 5) instead of heat maps, `word` only its lines.
    """
    if kind not in attention.kinds:
        raise UserError(f"--kind {kind}: this model has only {', '.join(attention.kinds)}")
    shown = attention.kinds[kind]
    layers, count = shown.weights.shape[:2]
    layer = layers if layer is None else layer
    if not 1 <= layer <= layers:
        raise UserError(f"--layer {layer} is not in 1 ... {layers}")
    for head in heads or []:
        if not 1 <= head <= count:
            raise UserError(f"--heads {head} is not in 1 ... {count}")
    heads = list(dict.fromkeys(heads or range(1, count + 1)))
    only = None
    if word is not None:
        wanted = composed(word.casefold())
        only = [i for i, x in enumerate(shown.queries) if composed(x.casefold()) == wanted]
        if not only:
            sentence = " ".join(shown.queries)
            raise UserError(f"--word {word} is not in: {sentence} (--words merges subwords)")
    start = {"kind": kind, "layer": layer, "heads": heads, "word": word}
    title = f"{KINDS[kind]}, layer {layer}"
    draw = partial(draw_lines, only=only) if lines or word is not None else draw_heads
    for path in outputs:
        if path.suffix == ".html":
            with write_bytes_atomically(path) as stream:
                stream.write(page(attention, start).encode("utf-8"))
        elif path.suffix == ".json":
            write_json(path, as_json(attention), indent=None)
        else:
            draw(shown.weights[layer - 1], heads, shown.queries, shown.keys, title, path)


def as_json(attention: Attention) -> dict[str, Any]:
    """The weights of every layer and head, (N, H, T, S) for each kind, to seven decimals."""
    kinds: dict[str, Any] = {}
    for kind, heads in attention.kinds.items():
        weights = heads.weights.astype(float).round(7).tolist()
        kinds[kind] = {"queries": heads.queries, "keys": heads.keys, "weights": weights}
    return {"source": attention.source, "target": attention.target, "attention": kinds}


def attend_corpus(
    translator: Translator, paths: list[Path], merge: str | None = None
) -> Iterator[Attention]:
    """The attention of each line of a corpus but the empty ones; a terminal shows a progress bar.

    `paths`: source and, unless the model translates, target. `merge`: subwords to join to words.
    """
    encode, encode_target = translator.pipeline.encode, translator.pipeline.of_target().encode
    alone = ((source, None) for source in read_lines(paths[0]))
    pairs = alone if len(paths) == 1 else read_pairs(*paths)
    for number, (source, target) in enumerate(tqdm(pairs, unit=" sentences", disable=None), 1):
        if not encode(source) or (target is not None and not encode_target(target)):
            continue
        try:
            attention = translator.attention(source, target)
        except UserError as error:
            raise UserError(f"{paths[0]}:{number}: {error}") from error
        yield attention.merged(merge) if merge else attention


STATISTICS = {
    "distance": "mean distance |query - key|, in tokens",
    "entropy": "entropy, in bits",
    "previous": "share on the previous token",
    "same": "share on the same token",
    "next": "share on the next token",
}


def _query_sums(weights: np.ndarray) -> dict[str, np.ndarray]:
    """Each statistic of weights (N, H, T, S), summed over a sentence's queries; (N, H)."""
    # Tokens are compared by position: between two languages this measures how monotonic it is.
    weights = weights.astype(np.float64)
    queries, keys = weights.shape[-2:]
    distance = np.abs(np.arange(queries)[:, None] - np.arange(keys))
    logarithms = np.log2(weights, where=weights > 0, out=np.zeros_like(weights))
    sums = {"distance": (weights * distance).sum((-2, -1))}
    sums["entropy"] = -(weights * logarithms).sum((-2, -1))
    for name, offset in (("previous", -1), ("same", 0), ("next", 1)):
        sums[name] = np.diagonal(weights, offset, -2, -1).sum(-1)  # a missing neighbour gets 0
    return sums


def corpus_statistics(sentences: Iterable[Attention]) -> dict[str, Any]:
    """The statistics, averaged over all queries.

    `attention` has for each kind `queries` (their number) and the keys of `STATISTICS`, each a list
    of N lists of H numbers.
    """
    count, sums = 0, dict[str, dict[str, Any]]()
    for attention in sentences:
        count += 1
        for kind, heads in attention.kinds.items():
            of_kind = sums.setdefault(kind, dict.fromkeys(("queries", *STATISTICS), 0))
            of_kind["queries"] += len(heads.queries)
            for name, value in _query_sums(heads.weights).items():
                of_kind[name] = of_kind[name] + value
    if not count:
        raise UserError("--corpus holds no sentences; give more text")
    for of_kind in sums.values():
        of_kind |= {name: (of_kind[name] / of_kind["queries"]).tolist() for name in STATISTICS}
    return {"sentences": count, "attention": sums}


def as_table(statistics: dict[str, Any]) -> str:
    """The result of `corpus_statistics` as a table, one row a head."""
    from tabulate import tabulate

    rows = [
        [kind, layer + 1, head + 1, *(means[name][layer][head] for name in STATISTICS)]
        for kind, means in statistics["attention"].items()
        for layer, heads in enumerate(means["distance"])
        for head in range(len(heads))
    ]
    table = tabulate(rows, ["attention", "layer", "head", *STATISTICS], floatfmt=".3f")
    legend = "\n".join(f"{name:<9} {meaning}" for name, meaning in STATISTICS.items())
    return f"{table}\n\n{statistics['sentences']} sentences\n{legend}"
