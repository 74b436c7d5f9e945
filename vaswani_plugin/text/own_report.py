"""What is known of text that was cleaned and divided: numbers for choices, and what was dropped."""

import unicodedata
from pathlib import Path
from typing import Any

from vaswani_plugin.text.corpus_io import read_lines
from vaswani_plugin.text.screening import Dropped

LONGEST_WORDS = 15
"""Characters between two blanks, on average, from which a text is one without words between blanks:
German has 7, Finnish 8, Japanese and Thai 20 and more."""


def report(
    counts: dict[str, int], train: dict[str, Path], dropped: dict[str, Dropped]
) -> dict[str, Any]:
    """What is known of prepared text, for JSON.

    Args:
        counts: pairs (or lines) of each split.
        train: the training text's files, by language.
        dropped: what became of each file.
    """
    letters: set[str] = set()
    sides = []
    for language, path in train.items():
        characters = words = 0
        for line in read_lines(path):
            letters.update(line)
            characters += len(line)
            words += len(line.split())
        sides.append({"language": language, "characters": characters, "words": words})
        tokenizer = sacrebleu_tokenizer(language, characters, words)
    normal = set(unicodedata.normalize("NFKC", "".join(letters)))
    files = {name: found.as_json() for name, found in dropped.items()}
    return {
        "splits": counts,
        "letters": len(normal),
        "sides": sides,
        "sacrebleu_tokenizer": tokenizer,
        "files": files,
    }


def sacrebleu_tokenizer(language: str, characters: int, words: int) -> str:
    """Which of sacreBLEU's tokenizers suits the target text.

    Args:
        language: its code.
        characters: of the text.
        words: between blanks.

    Returns:
        "zh" for Chinese; "char" for other text without blanks between words; else "13a".
    """
    if language.casefold().replace("-", "_").split("_")[0] in ("zh", "yue"):
        return "zh"
    return "char" if characters > LONGEST_WORDS * words else "13a"
