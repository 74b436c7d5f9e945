"""Names of languages by BCP 47 (RFC 5646), in its case: hsb, pt-BR, zh-Hans, ca-valencia.

A pair is source-target, such as en-pt-BR: the case tells a language (pt) from a region (PT).
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def trained_languages(task: Mapping[str, Any], data: Path) -> tuple[str, str]:
    """Source and target that a checkpoint's task was told, else those in the names of its data."""
    told = [task[key] for key in ("source_lang", "target_lang") if task.get(key)]
    source, target = told if len(told) == 2 else (not told and languages_of(data)) or ("", "")
    if not source:
        advice = "`vaswani import` takes both --source-lang and --target-lang"
        raise UserError(f"neither it nor the files of {data} name its languages; {advice}")
    return source, target
