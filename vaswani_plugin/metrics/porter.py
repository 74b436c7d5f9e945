"""Porter's stemmer of English (Porter 1980, "An algorithm for suffix stripping").

ROUGE compares stems. Its usual implementations stem as nltk does, which departs from Porter: words
of two letters don't change; a few irregular words have their own stems; "dies" keeps its e ("flies"
does not); y becomes i only after a consonant that does not begin the word; step 2 has more suffixes
(alli, fulli, logi, bli); a stem of a vowel and a consonant counts as short.

A word is a sequence of consonants c and vowels v. Its measure is the number of times that a c
follows a v.
"""

from collections.abc import Callable
from functools import lru_cache

REMEMBERED_WORDS = 1 << 18

_IRREGULAR = {
    **dict.fromkeys(["sky", "skies"], "sky"),
    **{"dying": "die", "lying": "lie", "tying": "tie", "news": "news", "howe": "howe"},
    **dict.fromkeys(["inning", "innings"], "inning"),
    **dict.fromkeys(["outing", "outings"], "outing"),
    **dict.fromkeys(["canning", "cannings"], "canning"),
    **{"proceed": "proceed", "exceed": "exceed", "succeed": "succeed"},
}
_STEP_2 = {
    **{"ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize"},
    **{"bli": "ble", "alli": "al", "entli": "ent", "eli": "e", "ousli": "ous"},
    **{"ization": "ize", "ation": "ate", "ator": "ate", "alism": "al", "iveness": "ive"},
    **{"fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble"},
    **{"fulli": "ful", "logi": "log"},
}
_STEP_3 = {
    **{"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": ""},
    "ness": "",
}
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion"),
    *("ou", "ism", "ate", "iti", "ous", "ive", "ize"),
)


def _form(word: str) -> str:
    """Each letter as c or v; y is a vowel after a consonant."""
    form = ""
    for letter in word:
        is_vowel = letter in "aeiou" or (letter == "y" and form.endswith("c"))
        form += "v" if is_vowel else "c"
    return form


def _measure(word: str) -> int:
    return _form(word).count("vc")


def _ends_double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _form(word)[-1] == "c"


def _is_short(word: str) -> bool:
    """Whether it ends in consonant, vowel, consonant (not w, x, y), or is vowel and consonant."""
    form = _form(word)
    return form == "vc" or (form.endswith("cvc") and word[-1] not in "wxy")


def _replaced(word: str, suffixes: dict[str, str], is_wanted: Callable[[str, str], bool]) -> str:
    """Replace the first suffix of the table that the word has, if `is_wanted` allows it.

    Args:
        word: in lower case.
        suffixes: replacement of each suffix.
        is_wanted: function of the stem before the suffix, and the suffix.
    """
    for suffix, replacement in suffixes.items():
        if word.endswith(suffix):
            stem = word.removesuffix(suffix)
            return stem + replacement if is_wanted(stem, suffix) else word
    return word


def _plural(word: str) -> str:
    """Step 1a: plurals."""
    if word.endswith("ies") and len(word) == 4:
        return word[:-1]
    return _replaced(word, {"sses": "ss", "ies": "i", "ss": "ss", "s": ""}, lambda *_: True)


def _past(word: str) -> str:
    """Step 1b: remove -ed and -ing, and restore the stem's ending."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    stem = next((word.removesuffix(end) for end in ("ed", "ing") if word.endswith(end)), word)
    if stem == word or "v" not in _form(stem):
        return word
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if _ends_double(stem):
        return stem if stem[-1] in "lsz" else stem[:-1]
    return stem + "e" if _measure(stem) == 1 and _is_short(stem) else stem


def _final_y(word: str) -> str:
    """Step 1c: a final y becomes i."""
    stem = word.removesuffix("y")
    is_turned = stem != word and len(stem) > 1 and _form(stem)[-1] == "c"
    return stem + "i" if is_turned else word


def _long_suffix(word: str) -> str:
    """Step 2: shorten long suffixes."""
    if word.endswith("alli") and _measure(word[:-4]) > 0:
        return _long_suffix(word[:-2])
    # For -logi, the l counts as part of the stem.
    return _replaced(
        word, _STEP_2, lambda stem, end: _measure(stem + "l" if end == "logi" else stem) > 0
    )


def _bare_suffix(word: str) -> str:
    """Step 4: remove suffixes."""

    def is_wanted(stem: str, suffix: str) -> bool:
        return _measure(stem) > 1 and (suffix != "ion" or stem.endswith(("s", "t")))

    return _replaced(word, dict.fromkeys(_STEP_4, ""), is_wanted)


def _final_e_and_l(word: str) -> str:
    """Step 5: remove a final e and shorten -ll."""
    stem = word.removesuffix("e")
    if stem != word:
        measure = _measure(stem)
        if measure > 1 or (measure == 1 and not _is_short(stem)):
            word = stem
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


@lru_cache(REMEMBERED_WORDS)
def stem(word: str) -> str:
    """The stem of a word, given in lower case."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    word = _long_suffix(_final_y(_past(_plural(word))))
    word = _replaced(word, _STEP_3, lambda stem, _: _measure(stem) > 0)
    return _final_e_and_l(_bare_suffix(word))
