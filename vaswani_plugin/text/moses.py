"""Moses' rules: normalizes punctuation, tokenizes and detokenizes, by sacremoses.

Every line gives exactly one line, with the same result as sacremoses. This module only adds speed:
it tries a rule of normalization only if the text holds a string that the rule needs, and it caches
the tokens of chunks. A chunk is the text between two spaces.
"""

import re
from collections.abc import Callable

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from vaswani_plugin.text.corpus_io import join_words

# Chunks in the cache of a process: about 50 MB. Longer chunks seldom repeat and are not cached.
REMEMBERED_CHUNKS = 1 << 18
LONGEST_REMEMBERED = 40


def _needed_text(pattern: str) -> str:
    """A string that a text must hold for a pattern of sacremoses to change it."""
    if pattern == " +":
        return "  "  # a single space is replaced by a single space
    without_groups = re.split(r"(?<!\\)\(.*?\)", pattern)
    literals = [re.sub(r"\\(\W)", r"\1", part) for part in without_groups]
    return max(literals, key=len).replace(r"\r", "\r")


def make_normalizer(language: str) -> Callable[[str], str]:
    """Returns the punctuation normalization of sacremoses' command and Moses' own script.

    Both keep the line end on a line, and one rule depends on it: in German, Spanish and French, a
    full stop before a closing quotation mark at the end of a line moves behind the mark.

    Args:
        language: two-letter code.
    """
    rules = [
        (_needed_text(pattern), re.compile(pattern).sub, replacement)
        for pattern, replacement in MosesPunctNormalizer(lang=language).substitutions
    ]

    def normalize(text: str) -> str:
        text += "\n"
        for needed, substitute, replacement in rules:
            if needed in text:
                text = substitute(replacement, text)
        return text.strip()

    return normalize


class _Tokenizer(MosesTokenizer):
    """sacremoses' tokenizer; it builds its character sets once instead of at every call."""

    def __init__(self, language: str) -> None:
        super().__init__(lang=language)
        self.lower = frozenset(self.IsLower)
        self.alpha = frozenset(self.IsAlpha)
        self.NONBREAKING_PREFIXES = frozenset(self.NONBREAKING_PREFIXES)

    def islower(self, text: str) -> bool:
        return self.lower.issuperset(text)

    def isanyalpha(self, text: str) -> bool:
        return not self.alpha.isdisjoint(text)


class _Chunks(dict[str, str]):
    """Maps a chunk and its context, as far as Moses' rules depend on it, to the chunk's tokens.

    A key is a chunk, or a chunk, a space and marks. `^` marks the first chunk, `$` the last. If a
    chunk ends in a full stop, `a` marks that the next one begins in lower case, `1` with a digit.
    """

    def __init__(self, moses: _Tokenizer, aggressive: bool, escape: bool) -> None:
        super().__init__()
        self._moses = moses
        self._options = {"aggressive_dash_splits": aggressive, "escape": escape}
        self._pad, self._padded = moses.PAD_NOT_ISALNUM
        # No rule changes a chunk that is not padded and holds none of these characters.
        changing = "-.'`," if aggressive else ".'`,"
        self._plain = re.compile(f"([^{changing}]+)([.,]?)").fullmatch

    def by_moses(self, line: str) -> str:
        """Tokenizes a line by sacremoses itself."""
        return " ".join(self._moses.tokenize(line, return_str=True, **self._options).split())

    def by_chunks(self, chunks: list[str], marks: str = "^$") -> str:
        """Tokenizes the chunks of a line one by one; `marks` belong to the whole sequence."""
        for i in range(len(chunks) - 1):
            if chunks[i][-1] == ".":
                chunks[i] += self._kind(chunks[i + 1][0])
        if "^" in marks:
            chunks[0] += " ^"
        chunks[-1] += " " + marks.replace("^", "")
        return " ".join(map(self.__getitem__, chunks))

    def _kind(self, letter: str) -> str:
        return " a" if letter in self._moses.lower else " 1" if letter in "0123456789" else ""

    def __missing__(self, key: str) -> str:
        chunk, _, marks = key.partition(" ")
        tokens = self._tokens(chunk, marks)
        if len(key) <= LONGEST_REMEMBERED:
            if len(self) >= REMEMBERED_CHUNKS:
                self.clear()
            self[key] = tokens
        return tokens

    def _tokens(self, chunk: str, marks: str) -> str:
        parts = self._pad.sub(self._padded, chunk).split()
        if len(parts) > 1:
            return self.by_chunks(parts, marks)
        before = "" if "^" in marks else "a "
        behind = "" if "$" in marks else " a" if "a" in marks else " 1" if "1" in marks else " A"
        plain = self._plain(chunk)
        # Moses replaces dots by DOTMULTI and back; a text that holds "MULTI" would change.
        if len(chunk) == 1 or plain is None or "MULTI" in chunk:
            line = self.by_moses(before + chunk + behind)
        elif plain[2] == ".":
            line = before + self._moses.handles_nonbreaking_prefixes(chunk + behind)
        else:
            return " ".join(plain.groups()).rstrip(" ")
        return line[len(before) : len(line) - len(behind)]


def make_tokenizer(language: str, aggressive: bool, escape: bool) -> Callable[[str], str]:
    """Returns sacremoses' tokenization: a function from a line to tokens joined by spaces.

    Its rules depend on neighbouring chunks in three ways. Some rules test whether there is a chunk
    before or after. The rules for the full stop test how the next chunk begins. If two apostrophes
    have a space between them, the rule for the first one consumes the space. Lines with such
    apostrophes, and lines with control characters (Moses drops some), are tokenized as a whole.

    Args:
        language: two-letter code.
        aggressive: as in `make_processor`.
        escape: as in `make_processor`.
    """
    chunks_of = _Chunks(_Tokenizer(language), aggressive, escape)
    tokens_of = chunks_of.__getitem__

    def tokenize(line: str) -> str:
        chunks = line.split()
        text = " ".join(chunks)
        if "' '" in text or not text.isprintable():
            return chunks_of.by_moses(text)
        if not chunks:
            return ""
        if ". " in text:
            return chunks_of.by_chunks(chunks)
        chunks[0] += " ^"
        chunks[-1] += " $"
        return " ".join(map(tokens_of, chunks))

    return tokenize


def make_processor(
    language: str, lowercase: bool, normalize: bool, tokenize: bool, aggressive: bool, escape: bool
) -> Callable[[str], str]:
    """Returns the function from a raw line to a tokenized one.

    Args:
        language: two-letter code; it selects rules for apostrophes, abbreviations and quotation
            marks.
        lowercase: convert to lower case first.
        normalize: normalize punctuation.
        tokenize: split the line into tokens.
        aggressive: split words at hyphens as well ("well-known": "well @-@ known").
        escape: write &, |, <, >, ', ", [ and ] as XML entities, as Moses does.
    """
    steps: list[Callable[[str], str]] = []
    if lowercase:
        steps.append(str.lower)
    if normalize:
        steps.append(make_normalizer(language))
    if tokenize:
        steps.append(make_tokenizer(language, aggressive, escape))
    else:
        # A later reader would end the line at a U+2028 or similar inside it.
        steps.append(join_words)

    def process(line: str) -> str:
        for step in steps:
            line = step(line)
        return line

    return process


def make_detokenizer(language: str) -> Callable[[str], str]:
    """Returns the function from a tokenized line, escaped or not, to running text."""
    detokenizer = MosesDetokenizer(lang=language)
    return lambda line: detokenizer.detokenize(line.split())
