"""Pictures of trees (.png, .svg, ...)."""

import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from vaswani_plugin.figures.figures import new_figure, save_figure
from vaswani_plugin.text.trees import Leaf, Open, Symbol, Tree, unescape_brackets

ROW = 0.5  # inches between a constituent and its children
GAP = 0.12  # inches between neighbours
FONT = 11  # points
CHARACTER = 0.62 * FONT / 72  # inches, of a wide one in matplotlib's font
# Limit of a picture in pixels, in inches (matplotlib: 2^16 pixels, at 150 an inch).
WIDEST = 430
CATEGORY, TAG, WORD, LINE = "#1f4e9c", "#3b7d4f", "black", "#9a9a9a"


@dataclass
class Node:
    """A constituent, or a word with its tag, and its position.

    left, width: the strip of the picture, in inches, that is reserved for it and its descendants.
    row: 0 for the root; all words are in the lowest row.
    """

    symbol: Symbol
    row: int
    parent: "Node | None"
    children: list["Node"] = field(default_factory=list)
    left: float = 0.0
    width: float = 0.0

    @property
    def x(self) -> float:
        """The middle of its strip, in inches."""
        return self.left + self.width / 2

    @property
    def texts(self) -> tuple[str, ...]:
        """The text of the node: a label, or a tag and a word below it."""
        if isinstance(self.symbol, Leaf):
            return self.symbol.tag, unescape_brackets(self.symbol.word)
        return (self.symbol.label,)


def layout(tree: Tree) -> list[Node]:
    """The nodes from left to right, parents before their children, each with its position."""
    nodes = _nodes(tree)
    for node in reversed(nodes):
        below = sum(child.width for child in node.children)
        node.width = max(below, max(map(_text_width, node.texts)) + GAP)
    for node in nodes:
        left = node.left + (node.width - sum(child.width for child in node.children)) / 2
        for child in node.children:
            child.left = left
            left += child.width
    lowest = max(node.row for node in nodes)
    for node in nodes:
        if isinstance(node.symbol, Leaf):
            node.row = lowest
    return nodes


def _nodes(tree: Tree) -> list[Node]:
    nodes: list[Node] = []
    above: list[Node] = []
    for symbol in tree:
        if not isinstance(symbol, (Open, Leaf)):
            above.pop()
            continue
        node = Node(symbol, len(above), above[-1] if above else None)
        nodes.append(node)
        if above:
            above[-1].children.append(node)
        if isinstance(symbol, Open):
            above.append(node)
    return nodes


def _text_width(text: str) -> float:
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return (len(text) + wide) * CHARACTER


def draw_tree(tree: Tree, output: Path) -> None:
    """Write a picture of the tree; its suffix chooses the format.

    Raises:
        ValueError: matplotlib is not installed, or the tree is too large for pixels.
        OSError: the file can't be written.
    """
    nodes = layout(tree)
    width = nodes[0].width + GAP
    height = (nodes[-1].row + 1.2) * ROW
    if max(width, height) > WIDEST and output.suffix != ".svg":
        raise ValueError(f"{output}: the tree is too large for pixels; draw it as .svg")
    figure = new_figure(width, height)
    figure.set_layout_engine("none")
    panel = figure.add_axes((0, 0, 1, 1))
    panel.set(xlim=(-GAP / 2, width - GAP / 2), ylim=(height - ROW / 2, -ROW / 2))
    panel.axis("off")
    for node in nodes:
        y = node.row * ROW
        if node.parent:
            # Lines go down from the parent, across between the rows, and down to the node, so that
            # they never cross the text of another constituent.
            top = node.parent.row * ROW
            x = [node.parent.x, node.parent.x, node.x, node.x]
            panel.plot(x, [top, top + ROW / 2, top + ROW / 2, y], color=LINE, lw=1.1, zorder=0)
        for text, down, style in zip(node.texts, (0, ROW / 2), _styles(node), strict=False):
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
            panel.text(
                *(node.x, y + down, text),
                **{"ha": "center", "va": "center", "fontsize": FONT, "bbox": box},
                **{"parse_math": False, **style},
            )
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none"}):  # text stays text: any font, and searchable
        save_figure(figure, output)


def _styles(node: Node) -> list[dict[str, str]]:
    if isinstance(node.symbol, Leaf):
        return [{"color": TAG}, {"color": WORD}]
    return [{"color": CATEGORY, "weight": "bold"}]
