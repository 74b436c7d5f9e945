"""The next word of the source as an input of a parser's decoder. The paper has no such input.

A decoder of trees writes a placeholder for each word of the source, in order. It has to count the
placeholders by attention alone, and with few trees to learn from it loses count. `NextWord` gives
it the word that the next placeholder stands for, as hard monotonic attention does (Aharoni &
Goldberg 2017).

Axes: B batch, S source length, T target length, D d_model.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def last_tokens_of_words(tokens: Tensor, ends_word: Tensor, pad: int, eos: int) -> Tensor:
    """Where words end: at tokens that say so, and at the last one of a sentence.

    Args:
        tokens: (B, S), padded left or right.
        ends_word: boolean (V,), by token.

    Returns:
        Boolean (B, S).
    """
    real = _is_real(tokens, pad, eos)
    last = real.clone()
    last[:, :-1] &= ~real[:, 1:]
    return real & (ends_word[tokens] | last)


def first_tokens_of_words(tokens: Tensor, ends_word: Tensor, pad: int, eos: int) -> Tensor:
    """Find where each word begins.

    Args:
        tokens: (B, S), padded left or right.
        ends_word: boolean (V,), by token.

    Returns:
        For each word the column of `tokens` where it begins, (B, S + 1); behind the last word
        of a sentence stands the column of its end.
    """
    real = _is_real(tokens, pad, eos)
    begins = real.clone()
    begins[:, 1:] &= ~real[:, :-1] | last_tokens_of_words(tokens, ends_word, pad, eos)[:, :-1]
    length = tokens.size(1)
    end = tokens.eq(eos).int().argmax(dim=1, keepdim=True)
    first = end.repeat(1, length + 2)  # the last column takes what begins no word
    word = torch.where(begins, begins.cumsum(dim=1) - 1, length + 1)  # counted from 0
    columns = torch.arange(length, device=tokens.device).expand_as(tokens)
    return first.scatter(1, word, columns)[:, :-1]


def _is_real(tokens: Tensor, pad: int, eos: int) -> Tensor:
    return tokens.ne(pad) & tokens.ne(eos)


class NextWord(nn.Module):
    """W h, where h is the encoder's output for the first token of the next word to be written.

    Args:
        d_model: D.
        ends_word: boolean, by number of the source's dictionary: the token ends a word.
        is_word: boolean, by number of the target's dictionary: the symbol stands for a word.
        pad: number of padding in the source.
        eos: number of the end of sentence in the source.
    """

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
        """What stands for each word.

        Args:
            source: (B, S).
            memory: the encoder's output, (B, S, D).

        Returns:
            (B, S + 1, D); behind the words of a sentence stands its end.
        """
        first = first_tokens_of_words(source, self.ends_word, self.pad, self.eos)
        return F.linear(pick_rows(memory, first), self.weight)

    def written(self, symbols: Tensor) -> Tensor:
        """Words that a sequence of symbols stands for, up to and with each: (B, T) -> (B, T)."""
        return self.is_word[symbols].cumsum(dim=1)

    def forward(self, words: Tensor, written: Tensor) -> Tensor:
        """What is added to the decoder's input.

        Args:
            words: what `words` returned, (B, S + 1, D).
            written: number of words that the symbols so far stand for, (B, T).

        Returns:
            (B, T, D).
        """
        return pick_rows(words, written.clamp(max=words.size(1) - 1))


def pick_rows(x: Tensor, numbers: Tensor) -> Tensor:
    """(B, N, D), (B, M) -> (B, M, D)."""
    return x.gather(1, numbers[:, :, None].expand(-1, -1, x.size(2)))
