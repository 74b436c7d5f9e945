"""Moses' rules: punctuation normalized, text into tokens and tokens into running text.

Every line gives exactly one line.
"""

from collections.abc import Callable

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer


def make_processor(
    language: str, lowercase: bool, normalize: bool, tokenize: bool, aggressive: bool, escape: bool
) -> Callable[[str], str]:
    """Returns the function from a raw line to a tokenized one.

    Args:
        language: two-letter code; decides on apostrophes, abbreviations and quotation marks.
        aggressive: split words at hyphens as well ("well-known": "well @-@ known").
        escape: write &, |, <, >, ', ", [ and ] as XML entities, as Moses does.
    """
    normalizer = MosesPunctNormalizer(lang=language)
    tokenizer = MosesTokenizer(lang=language)

    def process(line: str) -> str:
        if lowercase:
            line = line.lower()
        if normalize:
            line = normalizer.normalize(line)
        if tokenize:
            line = tokenizer.tokenize(
                line, aggressive_dash_splits=aggressive, return_str=True, escape=escape
            )
        # A line end hidden in a line (U+2028 and its like) would be one to a later reader.
        return " ".join(line.split())

    return process


def make_detokenizer(language: str) -> Callable[[str], str]:
    """Returns the function from a tokenized line, escaped or not, to running text."""
    detokenizer = MosesDetokenizer(lang=language)
    return lambda line: detokenizer.detokenize(line.split())
