"""The page of `vaswani attention`: one HTML file that needs no network, to explore a sentence.

The weights lie in it as 16-bit integers (65,535 is a weight of 1) in base64.
"""

import base64
import json
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from vaswani_plugin.inference.attention import KINDS, Attention
from vaswani_plugin.text.corpus_io import write_bytes_atomically

TEMPLATE = Path(__file__).with_name("attention_page.html")
LEVELS = 65535


def page(attention: Attention, start: dict[str, Any]) -> str:
    """The HTML text.

    Args:
        attention: what to show.
        start: what to show first: `kind`, `layer` and `heads` (from 1 on), `word` (or None).
    """
    data = {
        "start": start,
        "attention": {
            kind: {
                "title": KINDS[kind],
                "queries": heads.queries,
                "keys": heads.keys,
                "shape": heads.weights.shape,
                "weights": _packed(heads.weights),
            }
            for kind, heads in attention.kinds.items()
        },
    }
    # Within a script element HTML knows no escapes; JSON's own leave it nothing to end or to open.
    text = json.dumps(data)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    html = TEMPLATE.read_text(encoding="utf-8")
    parts = {
        "SOURCE": escape(attention.source),
        "TARGET": escape(attention.target),
        "DATA": text,
    }
    before, *rest = html.split("{{")  # one pass: a sentence may hold the name of a place
    return before + "".join(
        parts[name] + after for name, after in (piece.split("}}", 1) for piece in rest)
    )


def write_page(attention: Attention, start: dict[str, Any], output: Path) -> None:
    """Write the page; its file is complete or not there.

    Raises:
        OSError: it can't be written.
    """
    with write_bytes_atomically(output) as stream:
        stream.write(page(attention, start).encode("utf-8"))


def _packed(weights: np.ndarray) -> str:
    levels = np.rint(weights.astype(np.float64) * LEVELS).astype("<u2")
    return base64.b64encode(levels.tobytes()).decode("ascii")
