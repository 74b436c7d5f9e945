"""The word of the source that a parser has to write next, as an input of its decoder.

A decoder of trees writes a placeholder for each word of the source, in order. How many it has
written, it can only count by attention, whose mean over n of them differs by 1/n^2 from that over
n + 1: with few trees to learn from it loses its place. `NextWord` hands it the place, as hard
monotonic attention does (Aharoni & Goldberg 2017). The paper has nothing of the kind.

Axes: B batch, S source length, T target length, K most words of a sentence, D d_model.
"""

import torch
from torch import Tensor, nn

from vaswani_plugin.modules.linear import linear


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
    """Where each word begins.

    Args:
        tokens: (B, S), padded left or right.
        ends_word: boolean (V,), by token.

    Returns:
        Columns of `tokens`, (B, K + 1); behind a sentence's words stands that of its end.
    """
    real = _is_real(tokens, pad, eos)
    begins = real.clone()
    begins[:, 1:] &= ~real[:, :-1] | last_tokens_of_words(tokens, ends_word, pad, eos)[:, :-1]
    number = begins.cumsum(dim=1) - 1  # of the word, from 0
    most = int(number.max()) + 1
    first = tokens.eq(eos).int().argmax(dim=1, keepdim=True).repeat(1, most + 1)
    sentence, column = begins.nonzero(as_tuple=True)
    first[sentence, number[sentence, column]] = column
    return first


def _is_real(tokens: Tensor, pad: int, eos: int) -> Tensor:
    return tokens.ne(pad) & tokens.ne(eos)


class NextWord(nn.Module):
    """W h, with h the encoder's output for the first token of the word that is to be written next.

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
            (B, K + 1, D), the last of a sentence for its end.
        """
        first = first_tokens_of_words(source, self.ends_word, self.pad, self.eos)
        return linear(_rows(memory, first), self.weight)

    def written(self, symbols: Tensor) -> Tensor:
        """Words that a sequence of symbols stands for, up to and with each: (B, T) -> (B, T)."""
        return self.is_word[symbols].cumsum(dim=1)

    def forward(self, words: Tensor, written: Tensor) -> Tensor:
        """What is added to the decoder's input.

        Args:
            words: what `words` gave, (B, K + 1, D).
            written: words that the symbols so far stand for, (B, T); more than there are count as
                all of them.

        Returns:
            (B, T, D).
        """
        return _rows(words, written.clamp(max=words.size(1) - 1))


class NextWords:
    """The next word of each hypothesis of a search.

    Axes: B sentences still there, W beams of each.

    Args:
        module: of the model.
        source: (B, S).
        memory: the encoder's output, (B, S, D).
    """

    def __init__(self, module: NextWord, source: Tensor, memory: Tensor) -> None:
        self.module = module
        self.words = module.words(source, memory)
        self.written = source.new_zeros(len(source), 1)  # words, (B, W)

    def advance(self, tokens: Tensor, parents: Tensor | None) -> Tensor:
        """Give every hypothesis its next symbol.

        Args:
            tokens: (B, W).
            parents: (B, W), the hypothesis of before that each one continues; None at first.

        Returns:
            What is added to the embeddings of the symbols, (B, W, D).
        """
        before = self.written if parents is None else self.written.gather(1, parents)
        self.written = before + self.module.is_word[tokens].long()
        return self.module(self.words, self.written)

    def keep(self, sentences: Tensor) -> None:
        """Go on with these sentences only, (B',)."""
        self.words, self.written = self.words[sentences], self.written[sentences]


def _rows(x: Tensor, numbers: Tensor) -> Tensor:
    """(B, N, D), (B, M) -> (B, M, D)."""
    return x.gather(1, numbers[:, :, None].expand(-1, -1, x.size(2)))
