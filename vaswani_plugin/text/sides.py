"""Finds pairs whose source and target sides are swapped.

There are two independent tests. `Sides` learns from the corpus itself, for any two languages and
scripts, how the left side differs from the right side, and finds single swapped pairs.
`seem_swapped` knows some languages by name. It finds a corpus in which all pairs are swapped, which
the first test cannot find.

Axes: N characters of a sentence.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

Pair = tuple[str, str]

BINS = 1 << 16
"""Bigrams of characters are counted by hashes of 16 bits."""
LEAST_EVIDENCE = 5.0
"""Natural logarithm of the odds, on both sides, from which a pair counts as swapped."""
LEAST_APART = 0.9
"""Least share of the sample in which the two sentences are classified as different sides; with a
smaller share, the sides are too similar to judge."""


def _bigrams(sentence: str) -> np.ndarray:
    """Hashes of the character bigrams, with the sentence's borders: (N + 1,), int64."""
    padded = f"\n{sentence}\n".encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(padded, dtype=np.uint32).astype(np.int64)
    return (codes[:-1] * 40_503 + codes[1:]) % BINS


def _counts(sentences: Sequence[str]) -> np.ndarray:
    """Counts of the bigrams, (BINS,)."""
    joined = np.concatenate([_bigrams(sentence) for sentence in sentences] or [_bigrams("")])
    return np.bincount(joined, minlength=BINS)


class Sides:
    """Classifies sentences as left or right side of a corpus, by character bigrams.

    Args:
        pairs: a sample of the corpus; most of its pairs are not swapped.
    """

    def __init__(self, pairs: Sequence[Pair]) -> None:
        sides = list(zip(*pairs, strict=True)) or [(), ()]
        counts = np.stack([_counts(side) for side in sides]) + 1
        logs = np.log(counts / counts.sum(axis=1, keepdims=True))
        self._odds = logs[0] - logs[1]
        apart = sum(self._evidence(left) * self._evidence(right) < 0 for left, right in pairs)
        self.differ = bool(pairs) and apart >= LEAST_APART * len(pairs)
        """Whether the two sides can be told apart."""

    def _evidence(self, sentence: str) -> float:
        """Log odds that a sentence belongs to the left side."""
        return float(self._odds[_bigrams(sentence)].sum())

    def swapped(self, left: str, right: str) -> bool:
        """Whether each sentence clearly belongs to the other side."""
        return (
            self.differ
            and self._evidence(left) < -LEAST_EVIDENCE
            and self._evidence(right) > LEAST_EVIDENCE
        )


SCRIPTS = {
    **dict.fromkeys(("ru", "uk", "bg", "be", "mk", "kk", "mn"), "CYRILLIC"),
    **dict.fromkeys(("ar", "fa", "ur", "ps"), "ARABIC"),
    **dict.fromkeys(("hi", "mr", "ne", "sa"), "DEVANAGARI"),
    **dict.fromkeys(("zh", "yue", "ja"), "CJK"),
    **{"ko": "HANGUL", "el": "GREEK", "he": "HEBREW", "yi": "HEBREW", "th": "THAI", "lo": "LAO"},
    **{"bn": "BENGALI", "ta": "TAMIL", "te": "TELUGU", "kn": "KANNADA", "ml": "MALAYALAM"},
    **{"gu": "GUJARATI", "pa": "GURMUKHI", "si": "SINHALA", "km": "KHMER", "my": "MYANMAR"},
    **{"ka": "GEORGIAN", "hy": "ARMENIAN", "am": "ETHIOPIC"},
}
"""The script of languages that are not written in Latin letters, as in Unicode character names."""

COMMON_WORDS = {
    language: frozenset(words.split())
    for language, words in {
        "en": "the of and to in is that it for was with on are this be at you he she his they",
        "de": "der die und das ist nicht ein eine zu den mit von sich auf für ich sie im dem wir",
        "fr": "le la les de des et est un une du que dans pour pas il elle je vous nous au sur",
        "es": "el la los las de y en que un una es por con no para del su se lo como",
        "it": "il di che la e un una è per non in sono del con gli le della si mi ho",
        "pt": "o a os as de que e um uma do da não em para com é no na se eu",
        "nl": "de het een en van ik is niet dat in je op zijn voor met te die er hij aan",
        "sv": "och att det som en är av för den på inte med jag har ett han om var vi till",
        "da": "og at det er en til af på de der ikke jeg med som for den har et han vi",
        "fi": "ja on ei se hän että oli ovat mutta kun mitä tämä olen minä ole kuin sen niin",
        "pl": "i w nie na się z do to że jest jak o co tak za od po ale był czy",
        "cs": "a v se na je že to s z do i ve ale jsem si o pro jako byl za",
        "ro": "și de în la nu a că o cu pe un este din mai care sunt o pentru să ce",
        "hu": "a az és nem hogy egy is ez van volt meg ha csak de már mint kell én",
        "tr": "bir ve bu ne için çok ben de da o mı var değil gibi daha ama sen en",
        "id": "yang dan di itu tidak ini dengan untuk dari saya dalam akan pada juga ada ke",
        "vi": "là và của không có tôi một những cho được trong người anh đã này với các",
    }.items()
}
"""Frequent words of languages that are written in Latin letters."""

LEAST_SHARE = 0.04
"""Least share of a side's words (or letters) that are in a language's list (or script)."""
TIMES_THE_OTHER = 4
"""How many times larger that share must be than on the side where the language should be."""


@lru_cache(maxsize=4096)
def _script(character: str) -> str:
    name = unicodedata.name(character, "")
    if name.startswith(("HIRAGANA", "KATAKANA")):
        return "CJK"
    return name.split(" ")[0]


def _explained(language: str, text: Sequence[str]) -> float | None:
    """Share of a text's words or letters that fit a language; None for an unknown language."""
    if script := SCRIPTS.get(language):
        letters = [c for line in text for c in line if c.isalpha()]
        return sum(_script(c) == script for c in letters) / max(len(letters), 1)
    if words := COMMON_WORDS.get(language):
        tokens = [word.strip(".,;:!?\"'()") for line in text for word in line.casefold().split()]
        return sum(token in words for token in tokens) / max(len(tokens), 1)
    return None


def seem_swapped(pairs: Iterable[Pair], source: str, target: str) -> bool:
    """Whether the source side is in the target language and vice versa.

    Args:
        pairs: a sample of the corpus.
        source: language code of the left side, such as "de" or "de_AT". If a language is in neither
            table, only the other language decides.
        target: language code of the right side.
    """
    left, right = zip(*pairs, strict=True)
    is_swapped = False
    for code, own, other in ((source, left, right), (target, right, left)):
        language = code.replace("-", "_").split("_")[0].casefold()
        own_share, other_share = _explained(language, own), _explained(language, other)
        if own_share is None or other_share is None:
            continue
        if max(own_share, other_share) < LEAST_SHARE:
            continue
        if own_share * TIMES_THE_OTHER >= other_share:
            return False
        is_swapped = True
    return is_swapped
