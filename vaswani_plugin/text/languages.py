"""Names of languages by BCP 47 (RFC 5646), in its case: hsb, pt-BR, zh-Hans, ca-valencia.

A pair is source-target, such as en-pt-BR: the case tells a language (pt) from a region (PT).
"""

import re
from pathlib import Path

from vaswani_plugin.errors import UserError

_NAME = (
    "([a-z]{2,3}(?:-[A-Z][a-z]{3})?(?:-(?:[A-Z]{2}|[0-9]{3}))?"
    "(?:-(?:[a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*)"  # script, region, variants
)


def check_language(name: str) -> str:
    """The name, unless it is none."""
    if not re.fullmatch(_NAME, name):
        raise UserError(f"--language {name}: give a name of BCP 47, such as de, hsb or pt-BR")
    return name


def two_languages(pair: str) -> tuple[str, str]:
    """Splits a pair such as en-de."""
    match = re.fullmatch(f"{_NAME}-{_NAME}", pair)
    if not match or match[1] == match[2]:
        advice = "give two different languages of BCP 47, such as en-de, de-hsb, en-pt-BR"
        raise UserError(f"--pair {pair}: {advice}")
    return match[1], match[2]


def languages_of(folder: Path) -> tuple[str, str] | None:
    """The languages of binarized pairs, by the names SPLIT.SOURCE-TARGET.*.idx, if it is one."""
    names = {path.name.split(".")[1] for path in folder.glob("*.*-*.*.idx")}
    if len(names) != 1:
        return None
    name = names.pop()
    match = re.fullmatch(f"{_NAME}-{_NAME}", name)
    source, _, target = name.partition("-")  # of other names, such as words-symbols
    return (match[1], match[2]) if match else (source, target)
