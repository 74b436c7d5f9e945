"""Moses' rules: punctuation normalized, text into tokens and tokens into running text.

Every line gives exactly one line, and the result is that of sacremoses, which does the work. What
is added is speed: a rule of normalization is tried only where a text holds what the rule needs,
and the tokens of a chunk (what stands between spaces) are remembered.
"""

import re
from collections.abc import Callable

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

# Chunks remembered by a process: about 50 MB. A longer chunk is unlikely to come again.
REMEMBERED_CHUNKS = 1 << 18
LONGEST_REMEMBERED = 40


def _needed_text(pattern: str) -> str:
    """A text without which one of sacremoses' patterns can't match or would change nothing."""
    if pattern == " +":
        return "  "  # a single space is replaced by a single space
    without_groups = re.split(r"(?<!\\)\(.*?\)", pattern)
    literals = [re.sub(r"\\(\W)", r"\1", part) for part in without_groups]
    return max(literals, key=len).replace(r"\r", "\r")


def make_normalizer(language: str) -> Callable[[str], str]:
    """Returns the punctuation normalization of sacremoses' command, and of Moses' own script.

    Both leave the line end on a line, and one rule sees it: a full stop before a closing quotation
    mark at the end of a line moves behind it in German, Spanish and French.
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
    """sacremoses' tokenizer; the sets that it builds anew for every question are built once."""

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
    """From a chunk and what Moses' rules see of its surroundings to the chunk's tokens.

    A key is a chunk or, with a space between, a chunk and marks: `^` no chunk before it, `$` none
    behind it, and behind a chunk that ends in a full stop the kind of the next one: `a` begins in
    lower case, `1` with a digit.
    """

    def __init__(self, moses: _Tokenizer, aggressive: bool, escape: bool) -> None:
        super().__init__()
        self._moses = moses
        self._options = {"aggressive_dash_splits": aggressive, "escape": escape}
        self._pad, self._padded = moses.PAD_NOT_ISALNUM
        # Of a chunk that is neither padded nor holds these, no rule changes a letter.
        changing = "-.'`," if aggressive else ".'`,"
        self._plain = re.compile(f"([^{changing}]+)([.,]?)").fullmatch

    def by_moses(self, line: str) -> str:
        """A line tokenized by sacremoses itself."""
        return " ".join(self._moses.tokenize(line, return_str=True, **self._options).split())

    def by_chunks(self, chunks: list[str], marks: str = "^$") -> str:
        """Chunks of a line tokenized one by one; `marks` are those of all of them together."""
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
        # Moses writes DOTMULTI for dots and takes its own sign back where a text has it as well.
        if len(chunk) == 1 or plain is None or "MULTI" in chunk:
            line = self.by_moses(before + chunk + behind)
        elif plain[2] == ".":
            line = before + self._moses.handles_nonbreaking_prefixes(chunk + behind)
        else:
            return " ".join(plain.groups()).rstrip(" ")
        return line[len(before) : len(line) - len(behind)]


def make_tokenizer(language: str, aggressive: bool, escape: bool) -> Callable[[str], str]:
    """Returns sacremoses' tokenization: tokens with a space between them.

    Its rules reach across a space in three ways: some ask whether there is a chunk before or
    behind, the full stop's ask how the next chunk begins, and of two apostrophes with a space
    between them the rules for the first use up the space. Lines with such a pair are not taken
    apart, nor are lines with control characters, of which Moses drops some.
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
        language: two-letter code; decides on apostrophes, abbreviations and quotation marks.
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
        # A line end hidden in a line (U+2028 and its like) would be one to a later reader.
        steps.append(lambda line: " ".join(line.split()))

    def process(line: str) -> str:
        for step in steps:
            line = step(line)
        return line

    return process


def make_detokenizer(language: str) -> Callable[[str], str]:
    """Returns the function from a tokenized line, escaped or not, to running text."""
    detokenizer = MosesDetokenizer(lang=language)
    return lambda line: detokenizer.detokenize(line.split())
