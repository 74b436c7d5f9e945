"""Codings of a parser's source words; the symbols of the trees have a dictionary of their own.

    words     one unit for each word; rare and new words are <unk>.
    bpe       byte-pair encoding of the words' UTF-8 bytes (coding.py): there are no unknown units.

In both codings a unit without the joint @@ at its end ends a word. The search counts the words of a
source by this rule.
"""

from collections.abc import Callable, Sequence

from vaswani_plugin.text.binary import SPECIAL_SYMBOLS
from vaswani_plugin.text.coding import UNKNOWN, make_coding
from vaswani_plugin.text.linearization import escape_space, unescape_space
from vaswani_plugin.text.trees import escape_brackets

WORDS, SYMBOLS = "words", "symbols"
"""Names of the two sides, in place of a translation's languages."""
TREE_CODINGS = ("bpe", "words")
JOINT = "@@"


def words_of(line: str) -> list[str]:
    """Splits a tokenized line into words as treebanks write them: ( is -LRB-.

    A word may hold white space in the form that `escape_space` gives it. A no-break space is part
    of its word, as in treebanks.
    """
    words = line.replace("\t", " ").replace("\r", " ").split(" ")
    return [escape_space(unescape_space(escape_brackets(word))) for word in words if word]


def make_word_coding(coding: str, codes: str | None) -> Callable[[Sequence[str]], str]:
    """Returns the function from words without white space to units joined by blanks.

    Args:
        coding: one of `TREE_CODINGS`.
        codes: file with the table of merges, for `bpe`.

    Raises:
        InputError: the codes can't be read.
    """
    if coding == "bpe":
        encode, _ = make_coding("bpe", codes)
        return lambda words: encode(" ".join(words))
    return lambda words: " ".join(map(_whole_word, words))


def _whole_word(word: str) -> str:
    return UNKNOWN if word in SPECIAL_SYMBOLS or word.endswith(JOINT) else word
