"""Formats trees over several lines, for people."""

from vaswani_plugin.text.trees import Leaf, Open, Tree, to_line

INDENT = "  "


def pretty(tree: Tree, width: int = 100) -> str:
    """Formats a tree, indented; a constituent that fits on one line is not split.

    Args:
        tree: a single tree.
        width: columns of the longest line, unless a word is longer; the closing brackets of the
            constituents that end there come on top.
    """
    ends = _closing_positions(tree)
    lines: list[str] = []
    depth = position = 0
    while position < len(tree):
        symbol = tree[position]
        if isinstance(symbol, Open):
            end = ends[position]
            # A symbol takes at least two columns: this test avoids formatting long constituents.
            is_short = 2 * (end - position) < width
            whole = to_line(tree[position : end + 1]) if is_short else ""
            if is_short and len(INDENT) * depth + len(whole) <= width:
                lines.append(INDENT * depth + whole)
                position = end
            else:
                lines.append(f"{INDENT * depth}({symbol.label}")
                depth += 1
        elif isinstance(symbol, Leaf):
            lines.append(f"{INDENT * depth}({symbol.tag} {symbol.word})")
        else:
            lines[-1] += ")"
            depth -= 1
        position += 1
    return "\n".join(lines)


def _closing_positions(tree: Tree) -> dict[int, int]:
    ends, open_positions = {}, []
    for position, symbol in enumerate(tree):
        if isinstance(symbol, Open):
            open_positions.append(position)
        elif not isinstance(symbol, Leaf):
            ends[open_positions.pop()] = position
    return ends
