"""Scores of texts under a language model.

Axes: B texts, T tokens of the longest one, S scored tokens.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch

from vaswani_plugin.inference.batching import batches_by_length
from vaswani_plugin.inference.stream_scoring import log_probabilities
from vaswani_plugin.metrics.perplexity import TextCounts, perplexity
from vaswani_plugin.search.models import TextModel
from vaswani_plugin.text.dictionary import Dictionary


@dataclass(frozen=True)
class TextScore:
    """The score of a single text, in natural logarithms.

    Args:
        tokens: of the text, without its end.
        token_scores: log P of each token given the earlier tokens, then of the end.
    """

    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]

    @property
    def score(self) -> float:
        """log P of the text and its end."""
        return math.fsum(self.token_scores)

    @property
    def perplexity(self) -> float:
        """Perplexity per token, the end included."""
        return perplexity(-self.score / len(self.token_scores) / math.log(2))


@dataclass(frozen=True)
class Perplexity:
    """How well a model predicts a text.

    Line ends are predicted as well, and each counts as a token, a word, a character and a byte:
    the convention of published figures.

    Args:
        tokens: number of scored tokens, line ends included.
        unknown: how many of them are <unk> to the model but not in the text; they make the
            perplexities too low.
        log_probability: log P of all tokens, natural logarithm.
        counts: of the text.
    """

    tokens: int
    unknown: int
    log_probability: float
    counts: TextCounts

    @property
    def bits(self) -> float:
        """Bits that the model needs to code the text: -log2 P."""
        return -self.log_probability / math.log(2)

    @property
    def per_token(self) -> float:
        """Perplexity per token."""
        return perplexity(self.bits / self.tokens)

    @property
    def per_word(self) -> float:
        """Perplexity per word."""
        return perplexity(self._bits_per("word"))

    @property
    def bits_per_character(self) -> float:
        """Bits per character."""
        return self._bits_per("character")

    @property
    def bits_per_byte(self) -> float:
        """Bits per byte."""
        return self._bits_per("byte")

    def _bits_per(self, unit: str) -> float:
        return self.bits / self.counts.units(unit, with_line_ends=True)


@torch.no_grad()
def score_texts(
    model: TextModel,
    dictionary: Dictionary,
    texts: Sequence[tuple[str, ...]],
    batch_tokens: int,
) -> Iterator[tuple[int, TextScore]]:
    """Score texts, each by itself.

    Args:
        model: the language model.
        dictionary: of its tokens.
        texts: their tokens, without an end.
        batch_tokens: most tokens of a batch, padding included.

    Yields:
        The number of each text, from 0 on, and its score; the longest texts first.
    """
    index, end = dictionary.index, dictionary.eos()
    device = next(model.decoder.parameters()).device
    for batch in batches_by_length([len(text) + 1 for text in texts], batch_tokens):
        rows = [[*map(index, texts[place]), end] for place in batch]
        tokens = torch.full((len(rows), len(rows[0])), dictionary.pad(), device="cpu")  # (B, T)
        for place, row in zip(tokens, rows, strict=True):
            place[: len(row)] = torch.tensor([end, *row[:-1]], device="cpu")
        targets = torch.tensor([number for row in rows for number in row], device=device)  # (S,)
        scored = [slice(len(row)) for row in rows]
        rest = iter(log_probabilities(model, tokens.to(device), scored, targets).tolist())
        for place in batch:
            text = texts[place]
            yield place, TextScore(text, tuple(islice(rest, len(text) + 1)))
