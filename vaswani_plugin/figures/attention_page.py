"""The page of `vaswani attention`: one HTML file that needs no network, to explore a sentence.

It contains the weights as 16-bit integers (65,535 is a weight of 1) in base64.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from vaswani_plugin.inference.attention import KINDS, Attention

TEMPLATE = Path(__file__).with_name("attention_page.html")
LEVELS = 65535


def attention_data(attention: Attention) -> dict[str, Any]:
    """The explorer's data: for each kind its title, labels, shape (N, H, T, S) and weights."""
    data = {}
    for kind, heads in attention.kinds.items():
        levels = np.rint(heads.weights.astype(np.float64) * LEVELS).astype("<u2")
        weights = base64.b64encode(levels.tobytes()).decode("ascii")
        data[kind] = {"title": KINDS[kind], "queries": heads.queries, "keys": heads.keys}
        data[kind] |= {"shape": heads.weights.shape, "weights": weights}
    return data


@cache
def explorer_parts() -> dict[str, str]:
    """The explorer's style sheet, markup and script, which other pages can embed.

    The script defines `explore(data)`; `data` has `attention`, of `attention_data`, and `start`.
    """
    suffixes = {"STYLE": ".css", "EXPLORER": ".html", "SCRIPT": ".js"}
    stem = TEMPLATE.with_name("attention_explorer")
    return {k: stem.with_suffix(v).read_text(encoding="utf-8") for k, v in suffixes.items()}


def filled(template: str, parts: Mapping[str, str]) -> str:
    """Replace each `{{NAME}}` of a template by its part, in one pass: a part may contain `{{`."""
    before, *rest = template.split("{{")
    return before + "".join(
        parts[name] + after for name, after in (piece.split("}}", 1) for piece in rest)
    )


def page(attention: Attention, start: dict[str, Any]) -> str:
    """The page as HTML text; `start`: its first `kind`, `layer`, `heads` (from 1), `word`/None."""
    # HTML has no escapes within a script element. With JSON's escapes no text can end the element.
    text = json.dumps({"start": start, "attention": attention_data(attention)})
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    texts = {"SOURCE": escape(attention.source), "TARGET": escape(attention.target), "DATA": text}
    return filled(TEMPLATE.read_text(encoding="utf-8"), explorer_parts() | texts)


@dataclass(frozen=True)
class Explorer:
    """The page in a cell of a notebook, which shows it where a cell ends with `Explorer(...)`.

    It begins with the last layer's attention from decoder to encoder.
    """

    attention: Attention
    height: int = 560  # of the frame, in pixels

    def _repr_html_(self) -> str:
        kind = "cross" if "cross" in self.attention.kinds else next(iter(self.attention.kinds))
        layers, heads = self.attention.kinds[kind].weights.shape[:2]
        start = {"kind": kind, "layer": layers, "heads": [*range(1, heads + 1)], "word": None}
        style = f"width: 100%; height: {self.height}px; border: 0"
        return f'<iframe srcdoc="{escape(page(self.attention, start))}" style="{style}"></iframe>'
