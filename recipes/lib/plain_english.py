"""Finds phrases that are not plain English, and suggests others; exit code 1 if it finds one.

    python recipes/lib/plain_english.py            # the whole project
    python recipes/lib/plain_english.py FILE...

The style is CONTRIBUTING.md's: short sentences, subject first, the words of docs/glossary.md. A
line that needs such a phrase as an example ends in `plain-english: off`.
"""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = {".py", ".md", ".sh", ".sbatch", ".toml", ".yml", ".yaml", ".html"}
OUTSIDE = {".git", ".venv", "work", "build", "dist", "__pycache__"}
OFF = "plain-english: off"

INSTEAD = {
    r"what is left( of)?\b": "the rest, the remaining ...",  # plain-english: off
    r"those that came before": "the earlier ones",  # plain-english: off
    r"lets? go of": "drops, removes",  # plain-english: off
    r"by whose \w+": "say what it is: a sentence of its own",  # plain-english: off
    r"that to come\b": "the next one",  # plain-english: off
    r"those of now\b": "the current ones",  # plain-english: off
    r"\botherwise than\b": "differently from, unlike",  # plain-english: off
    r"\bfor want of\b": "without, because ... is missing",  # plain-english: off
    r"\bwhere(of|in|upon)\b": "of which, in which",  # plain-english: off
    r"\bnobody would miss\b": "unused",  # plain-english: off
    r"\bmay bring its share\b": "adds its part",  # plain-english: off
    r"\bstill there\b": "not finished, remaining",  # plain-english: off
    r"\bbehind \w+ stands?\b": "... follows ...",  # plain-english: off
    r"\bstands what\b": "subject first",  # plain-english: off
    r"\bholds? them to\b": "checks, enforces",  # plain-english: off
    r"\bheaded by\b|\bborne by\b": "active voice",  # plain-english: off
    r"\bas fairseq has it\b": "as in fairseq",  # plain-english: off
    r"\bfor ever\b": "endlessly, without limit",  # plain-english: off
    r"\bobviously\b|\bof course\b|\bneedless to say\b": "leave it out",  # plain-english: off
    r"\butili[sz]e": "use",  # plain-english: off
    r"\bin order to\b": "to",  # plain-english: off
    r"\bleverag(e|es|ing)\b": "use",  # plain-english: off
    r"\bseamless(ly)?\b|\bblazing": "say what it does",  # plain-english: off
}
"""By pattern (case is ignored), the advice on what to write instead."""

_LINE_BREAK = re.compile(r"\n[ #*>]*")
_COMPILED = [(re.compile(pattern, re.IGNORECASE), text) for pattern, text in INSTEAD.items()]


class Finding(NamedTuple):
    """A phrase in a file."""

    path: Path
    line: int
    phrase: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.phrase!r}; instead: {self.instead}"


def findings(path: Path) -> Iterator[Finding]:
    """Yields the phrases in a file, also those with a line break."""
    text = path.read_text(encoding="utf-8")
    in_one_line = _LINE_BREAK.sub(" ", text)
    if not any(pattern.search(in_one_line) for pattern, _ in _COMPILED):
        return
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        following = lines[number] if number < len(lines) else ""
        if OFF in line:
            continue
        joined = line if OFF in following else f"{line} {following.lstrip(' #*>')}"
        for pattern, instead in _COMPILED:
            for match in pattern.finditer(joined):
                if match.start() < len(line):
                    yield Finding(path, number, match[0], instead)


def project_files() -> list[Path]:
    """Lists every text file of the project that people read."""
    found = []
    for folder, inside, names in os.walk(ROOT):
        inside[:] = set(inside) - OUTSIDE
        found += [Path(folder, name) for name in names if Path(name).suffix in SUFFIXES]
    return sorted(found)


def main(arguments: list[str]) -> int:
    """Command line."""
    paths = [Path(argument) for argument in arguments] or project_files()
    found = [finding for path in paths for finding in findings(path)]
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
