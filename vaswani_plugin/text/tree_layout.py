"""Trees over several lines, for people."""

from vaswani_plugin.text.trees import Leaf, Open, Tree, to_line

INDENT = "  "


def pretty(tree: Tree, width: int = 100) -> str:
    """The bracketing with a constituent a line, indented; what fits on a line stays on one.

    Args:
        width: columns of the longest line, if its words allow.
    """
    ends = _closing_positions(tree)
    lines: list[str] = []
    depth = position = 0
    while position < len(tree):
        symbol = tree[position]
        if isinstance(symbol, Open):
            end = ends[position]
            # Each symbol takes two columns at the least: no long constituent is spelt out in vain.
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
