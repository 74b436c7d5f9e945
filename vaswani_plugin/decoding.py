"""The paper's decoding options (sections 6.1 and 6.3), under the names of fairseq's flags."""

from typing import Any

PAPER_DECODING: dict[str, Any] = {"beam": 4, "lenpen": 0.6, "max_len_a": 1.0, "max_len_b": 50}
"""Section 6.1: beam of 4, alpha 0.6, output at most 50 tokens longer than the input."""

PARSER_DECODING: dict[str, Any] = {"beam": 21, "lenpen": 0.3, "max_len_a": 1.0, "max_len_b": 300}
"""Section 6.3: beam of 21, alpha 0.3, output at most 300 tokens longer than the input."""

MAX_NEW_TOKENS = 100
"""Ours: greatest number of new tokens of a completion, or half of the model's positions if less."""
