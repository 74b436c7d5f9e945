"""Reports on text that was cleaned and divided: its sizes, and what was dropped."""

import unicodedata
from pathlib import Path
from typing import Any

from vaswani_plugin.text.corpus_io import read_lines
from vaswani_plugin.text.screening import Dropped

LONGEST_WORDS = 15
"""Average number of characters between two blanks above which a text has no blanks between words:
German has 7, Finnish 8, Japanese and Thai 20 and more."""


def report(
    counts: dict[str, int], train: dict[str, Path], dropped: dict[str, Dropped]
) -> dict[str, Any]:
    """Returns the report on prepared text, for JSON.

    Args:
        counts: number of pairs (or lines) of each split.
        train: the training text's files, by language.
        dropped: by file, what was dropped.
    """
    letters: set[str] = set()
    sides = []
    for language, path in train.items():
        characters = words = 0
        for line in read_lines(path):
            letters.update(unicodedata.normalize("NFKC", line))
            characters += len(line)
            words += len(line.split())
        sides.append({"language": language, "characters": characters, "words": words})
        tokenizer = sacrebleu_tokenizer(language, characters, words)
    files = {name: found.as_json() for name, found in dropped.items()}
    return {
        "splits": counts,
        "letters": len(letters),
        "sides": sides,
        "sacrebleu_tokenizer": tokenizer,
        "files": files,
    }


def sacrebleu_tokenizer(language: str, characters: int, words: int) -> str:
    """Returns the name of the sacreBLEU tokenizer that suits the target text.

    Args:
        language: code of the target language.
        characters: number of characters of the text.
        words: number of words between blanks.

    Returns:
        "zh" for Chinese; "char" for other text without blanks between words; otherwise "13a".
    """
    if language.casefold().replace("-", "_").split("_")[0] in ("zh", "yue"):
        return "zh"
    return "char" if characters > LONGEST_WORDS * words else "13a"
