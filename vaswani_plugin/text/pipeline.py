"""Converts raw lines to a model's subwords and back; cuts those with more than it takes."""

import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from math import ceil
from pathlib import Path

from vaswani_plugin.text.bpe import LineFunction, join_bpe, make_encoder
from vaswani_plugin.text.dictionary import plain_units
from vaswani_plugin.text.raw_text import canonical, composed
from vaswani_plugin.text.settings import (
    AnySettings,
    Settings,
    TextSettings,
    TreeSettings,
    read_settings,
)

SENTENCE_END = re.compile(r"▁?[.!?:;…。！？：；؟؛।]+")
CLAUSE_END = re.compile(r"▁?([,，、،]|[-–—]+)")
WIDE_SIGNS = frozenset("，、。！？：；")  # signs after which a word ends though no blank follows
WORD_BORDERS: dict[str, Callable[[str, str], bool]] = {
    "subword-nmt": lambda before, after: not before.endswith("@@"),
    "sentencepiece": lambda before, after: after.startswith("▁"),
    "none": lambda before, after: True,
}
"""By kind of subwords: a function (before, after) that tells whether a word ends between them."""


class Pipeline:
    """Raw lines to a model's subwords and back, by a folder's files; threads may share it."""

    def __init__(self, settings: AnySettings, folder: Path) -> None:
        self.settings, self.folder = settings, folder
        self.subwords = getattr(settings, "subwords", "none")  # a key of `WORD_BORDERS`
        codes = settings.codes and str(folder / settings.codes)
        if isinstance(settings, TreeSettings):
            from vaswani_plugin.text.linearization import make_word_coding, words_of

            encode_words = make_word_coding(settings.coding, codes)
            self._encode = lambda line: encode_words(words_of(line))
            self._decode: LineFunction = str
            return
        if isinstance(settings, TextSettings):
            from vaswani_plugin.text.coding import make_coding

            encode, self._decode = make_coding(settings.coding, codes)
            is_exact = settings.article_tokens is None  # an article needn't come back
            self._encode = encode if is_exact else lambda line: encode(composed(line))
            return
        from_words: LineFunction = str
        if settings.tokenizer == "moses":
            from vaswani_plugin.text.moses import make_detokenizer

            from_words = make_detokenizer(settings.target_language)
        self._split, join = _subwords(settings, folder)
        self._encode = _encoder(settings, self._split)
        self._decode = lambda line: " ".join(from_words(join(line)).splitlines())

    @classmethod
    def load(cls, folder: Path) -> "Pipeline":
        """Reads a bundle's settings and codes; see `read_settings`."""
        return cls(read_settings(folder), folder)

    def of_target(self) -> "Pipeline":
        """Returns the pipeline for raw lines in the target language, itself if it is the same."""
        settings = self.settings
        assert isinstance(settings, Settings)
        uses_rules = settings.tokenizer == "moses" or settings.normalize_punctuation
        if not uses_rules and settings.vocabulary is None:
            return self
        # The vocabulary that limits subword-nmt is that of the source language.
        plain = replace(settings, vocabulary=None, vocabulary_threshold=None)
        pipeline = copy(self)
        pipeline.settings = of_target = replace(plain, source_language=settings.target_language)
        if settings.vocabulary is not None:
            pipeline._split, _ = _subwords(of_target, self.folder)
        pipeline._encode = _encoder(of_target, pipeline._split)
        return pipeline

    def encode(self, line: str) -> str:
        """Converts a raw line to the model's subwords, joined by spaces; may return "".

        Text that equals a special symbol of dictionaries, such as </s>, is unknown.
        """
        return plain_units(self._encode(line))

    def decode(self, line: str) -> str:
        """Converts the model's subwords to running text without line breaks, or to the raw line."""
        return self._decode(line)


def _encoder(settings: Settings, split: LineFunction) -> LineFunction:
    # wordpiece.make_encoder does the same, but for models whose rule is nmt_nfkc.
    clean: LineFunction = str if settings.subwords == "sentencepiece" else canonical
    tokenize = settings.tokenizer == "moses"
    if not (tokenize or settings.lowercase or settings.normalize_punctuation):
        return lambda line: split(clean(line))
    from vaswani_plugin.text.moses import make_processor

    to_words = make_processor(
        settings.source_language,
        lowercase=settings.lowercase,
        normalize=settings.normalize_punctuation,
        tokenize=tokenize,
        aggressive=settings.aggressive_dash_splits,
        escape=settings.escape,
    )
    return lambda line: split(to_words(clean(line)))


def _subwords(settings: Settings, folder: Path) -> tuple[LineFunction, LineFunction]:
    if settings.subwords == "none":
        return str, str
    assert settings.codes is not None  # settings_from refuses it
    codes = str(folder / settings.codes)
    if settings.subwords == "sentencepiece":
        from vaswani_plugin.text import wordpiece

        return wordpiece.make_encoder(codes), wordpiece.make_decoder(codes)
    vocabulary = settings.vocabulary and str(folder / settings.vocabulary)
    return make_encoder(codes, vocabulary, settings.vocabulary_threshold or 0), join_bpe


def cut(
    tokens: Sequence[str], longest: int, is_word_border: Callable[[str, str], bool]
) -> Iterator[Sequence[str]]:
    """Cuts subwords into pieces of at most `longest`; of more, into about equal ones.

    A piece has from half to one and a half times an even share, which is up to 3/4 of `longest`.
    There it ends after a sentence, else after a clause, else after a word, near the even share.

    `is_word_border(before, after)` tells whether a word ends between two subwords.
    """
    start = 0

    def border(place: int) -> int:
        before, after = tokens[place - 1], tokens[place]
        if not (is_word_border(before, after) or before in WIDE_SIGNS):
            return 3
        return 0 if SENTENCE_END.fullmatch(before) else 1 if CLAUSE_END.fullmatch(before) else 2

    while (rest := len(tokens) - start) > longest:
        even = max(1.0, rest / ceil(rest / (0.75 * longest)))
        sizes = range(ceil(even / 2), min(longest, int(1.5 * even)) + 1)
        size = min(sizes, key=lambda size: (border(start + size), abs(size - even)))
        yield tokens[start : start + size]
        start += size
    yield tokens[start:]
