"""How results look in a notebook: plain HTML tables, without a plotting library or a script.

A notebook calls `_repr_html_` of the object that ends a cell. All text is escaped.
"""

from collections.abc import Iterable, Sequence
from html import escape

from vaswani_plugin.inference.attention import KINDS, Attention, Weights
from vaswani_plugin.inference.texts import Translation
from vaswani_plugin.text.trees import Leaf, Open, Tree, unescape_brackets

COLOUR = "31, 119, 180"
"""Of a weight of 1, red, green and blue; smaller weights are more transparent."""


def translation_html(translation: Translation) -> str:
    """A translation as a table: the source, then each hypothesis with its score."""
    rows = [("source", "", translation.source)]
    for number, found in enumerate(translation.hypotheses, start=1):
        rows.append((f"{number}", f"{found.score:.2f}", found.text))
    return _table(f"<tr>{''.join(_cell(text, 'left') for text in row)}</tr>" for row in rows)


def attention_html(attention: Attention) -> str:
    """A heat map of the last layer, the mean of its heads; every head is in `attention.kinds`.

    Its rows are queries, its columns keys. It is of the attention from decoder to encoder, or of
    the first kind that the model has.
    """
    kind = "cross" if "cross" in attention.kinds else next(iter(attention.kinds))
    heads = attention.kinds[kind]
    layers, count = heads.weights.shape[:2]
    title = f"{KINDS[kind]}: layer {layers} of {layers}, mean of {count} heads"
    return heat_map(heads.weights[-1].mean(axis=0), heads.queries, heads.keys, title)


def heat_map(weights: Weights, queries: Sequence[str], keys: Sequence[str], title: str = "") -> str:
    """Weights (T, S) as a table of coloured cells; a cell's number shows under the mouse."""
    vertical = "writing-mode: vertical-rl; transform: rotate(180deg)"
    head = "".join(f"<th style='{vertical}'>{escape(key)}</th>" for key in keys)
    rows = [f"<tr><th></th>{head}</tr>"]
    for query, row in zip(queries, weights.tolist(), strict=True):
        cells = "".join(
            f"<td title='{weight:.3f}' style='min-width: 1.4em; background: rgba({COLOUR}, "
            f"{weight:.3f})'></td>"
            for weight in row
        )
        rows.append(f"<tr><th style='text-align: right'>{escape(query)}</th>{cells}</tr>")
    return _table(rows, title)


def tree_html(tree: Tree) -> str:
    """A tree as tables within tables: a constituent's label above its parts, tags above words."""
    cell = "vertical-align: top; text-align: center; border-top: 1px solid"
    parts = []
    for symbol in tree:
        if isinstance(symbol, Open):
            label = f"<b>{escape(symbol.label)}</b>"
            parts.append(f"<td style='{cell}'>{label}<table style='margin: auto'><tr>")
        elif isinstance(symbol, Leaf):
            word = escape(unescape_brackets(symbol.word))
            parts.append(f"<td style='{cell}'>{escape(symbol.tag)}<br>{word}</td>")
        else:
            parts.append("</tr></table></td>")
    return f"<table><tr>{''.join(parts)}</tr></table>"


def _cell(text: str, align: str) -> str:
    return f"<td style='text-align: {align}'>{escape(text)}</td>"


def _table(rows: Iterable[str], title: str = "") -> str:
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    return f"<table>{caption}{''.join(rows)}</table>"
