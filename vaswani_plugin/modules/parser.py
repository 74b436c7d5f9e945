"""The next word of the source as an input of a parser's decoder. The paper has no such input.

A decoder of trees writes a placeholder for each word of the source, in order. It has to count the
placeholders by attention alone, and with few training trees it miscounts. `NextWord` gives the
decoder the word that the next placeholder stands for, as hard monotonic attention does (Aharoni &
Goldberg 2017).

Axes: B batch, S source length, T target length, D d_model.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vaswani_plugin.modules.transformer import Decoder, WholeSequence


def last_tokens_of_words(tokens: Tensor, ends_word: Tensor, pad: int, eos: int) -> Tensor:
    """Find where words end: at each token that ends a word, and at a sentence's last token.

    Tokens (B, S) are padded left or right, `ends_word` is boolean (V,). Returns boolean (B, S).
    """
    real = _is_real(tokens, pad, eos)
    last = real.clone()
    last[:, :-1] &= ~real[:, 1:]
    return real & (ends_word[tokens] | last)


def first_tokens_of_words(tokens: Tensor, ends_word: Tensor, pad: int, eos: int) -> Tensor:
    """Find the column of `tokens` where each word begins, (B, S + 1); see `last_tokens_of_words`.

    After a sentence's last word comes the column of its end of sentence.
    """
    real = _is_real(tokens, pad, eos)
    begins = real.clone()
    begins[:, 1:] &= ~real[:, :-1] | last_tokens_of_words(tokens, ends_word, pad, eos)[:, :-1]
    length = tokens.size(1)
    end = tokens.eq(eos).int().argmax(dim=1, keepdim=True)
    first = end.repeat(1, length + 2)  # the last column is for tokens that begin no word
    word = torch.where(begins, begins.cumsum(dim=1) - 1, length + 1)  # counted from 0
    columns = torch.arange(length, device=tokens.device).expand_as(tokens)
    return first.scatter(1, word, columns)[:, :-1]


def _is_real(tokens: Tensor, pad: int, eos: int) -> Tensor:
    return tokens.ne(pad) & tokens.ne(eos)


class NextWord(nn.Module):
    """W h, where h is the encoder output at the first token of the next word to be written.

    Args:
        d_model: D.
        ends_word: boolean, by number in the source's dictionary: the token ends a word.
        is_word: boolean, by number in the target's dictionary: the symbol stands for a word.
        pad: number of padding in the source.
        eos: number of the end of sentence in the source.
    """

    ends_word: Tensor
    is_word: Tensor

    def __init__(
        self, d_model: int, ends_word: Tensor, is_word: Tensor, pad: int, eos: int
    ) -> None:
        super().__init__()
        self.pad, self.eos = pad, eos
        self.register_buffer("ends_word", ends_word, persistent=False)
        self.register_buffer("is_word", is_word, persistent=False)
        self.weight = nn.Parameter(torch.empty(d_model, d_model))
        nn.init.xavier_uniform_(self.weight)

    def words(self, source: Tensor, memory: Tensor) -> Tensor:
        """Compute W h for every word of sources (B, S) with encoder outputs (B, S, D).

        Returns (B, S + 1, D). After a sentence's last word comes the vector of its end of sentence.
        """
        first = first_tokens_of_words(source, self.ends_word, self.pad, self.eos)
        return F.linear(memory.take_along_dim(first[:, :, None], dim=1), self.weight)

    def forward(self, words: Tensor, written: Tensor) -> Tensor:
        """Select the vector that is added to the decoder's input at each position, (B, T, D).

        `words` (B, S + 1, D) is of the method of that name; `written` (B, T) counts the words among
        the symbols up to each position.
        """
        numbers = written.clamp(max=words.size(1) - 1)
        return words.take_along_dim(numbers[:, :, None], dim=1)


class ParserMemory(NamedTuple):
    """A `Memory` with the vectors of the source's words."""

    features: Tensor  # encoder output, (B, S, D)
    mask: Tensor | None  # see `Memory`
    words: Tensor  # of `NextWord`, (B, S + 1, D)

    def select(self, rows: Tensor) -> "ParserMemory":
        """See `Memory`."""
        return ParserMemory._make(None if x is None else x.index_select(0, rows) for x in self)


class ParserDecoder(Decoder):
    """A decoder that reads the next word of the source, too."""

    def __init__(self, *parts: Any, next_word: NextWord, **options: Any) -> None:
        super().__init__(*parts, **options)
        self.next_word = next_word

    def remember(self, source: Tensor, features: Tensor, mask: Tensor | None) -> Any:
        """See `Decoder`."""
        return ParserMemory(features, mask, self.next_word.words(source, features))

    def inputs(
        self, tokens: Tensor, positions: Tensor, memory: Any, cache: WholeSequence
    ) -> Tensor:
        """See `Decoder`; the memory is a `ParserMemory`."""
        written = cache.running_sum("words", self.next_word.is_word[tokens].long())
        return self.embed(tokens, positions) + self.next_word(memory.words, written)
