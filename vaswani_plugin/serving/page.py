"""The page of the service: one HTML file, and the policy that lets it run nothing but its own code.

The page gets texts as JSON and inserts them as text nodes only. The explorer of `vaswani attention`
shows the attention.
"""

import hashlib
import re
from base64 import b64encode
from functools import cache
from pathlib import Path

from vaswani_plugin.figures.attention_page import explorer_parts, filled

TEMPLATE = Path(__file__).with_name("page.html")


@cache
def page() -> str:
    """The HTML text; it is the same for all."""
    parts = {
        f"PAGE_{name}": TEMPLATE.with_suffix(suffix).read_text(encoding="utf-8")
        for name, suffix in (("STYLE", ".css"), ("SCRIPT", ".js"))
    }
    return filled(TEMPLATE.read_text(encoding="utf-8"), parts | explorer_parts())


@cache
def policy() -> str:
    """The value of the page's Content-Security-Policy."""
    rules = ["default-src 'none'"]
    for element in ("script", "style"):
        blocks = re.findall(f"<{element}>(.*?)</{element}>", page(), re.DOTALL)
        digests = (hashlib.sha256(block.encode("utf-8")).digest() for block in blocks)
        hashes = (f"'sha256-{b64encode(digest).decode()}'" for digest in digests)
        rules.append(f"{element}-src {' '.join(hashes)}")
    rules += ["connect-src 'self'", "img-src data:", "base-uri 'none'", "form-action 'none'"]
    # Scripts can't turn a string into markup or code.
    rules += [
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    return "; ".join(rules)
