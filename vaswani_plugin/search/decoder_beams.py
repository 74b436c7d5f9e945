"""The hypotheses of a batch in our decoder: packed weights, one position at a time.

Axes: B unfinished sentences, W beams of each, S source length, D d_model, V vocabulary.
"""

import torch
from torch import Tensor

from vaswani_plugin.modules.parser import NextWord
from vaswani_plugin.modules.positions import add_positions
from vaswani_plugin.modules.transformer import Decoder
from vaswani_plugin.search.decoder_stack import DecoderStack, PackedDecoderLayer
from vaswani_plugin.search.packed_linear import PackedLinear


class PackedDecoder:
    """The decoder's weights, packed for search. When they change, pack them again."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.layers = [PackedDecoderLayer(layer) for layer in decoder.layers]
        self.projection = PackedLinear(decoder.projection.weight)

    def begin(
        self, encoder_out: dict[str, list[Tensor]], beam: int, with_attention: bool = True
    ) -> "DecoderBeams":
        """Start to decode a batch.

        Args:
            encoder_out: fairseq's encoder output: `encoder_out` [(S, B, D)],
                `encoder_padding_mask` [(B, S)], or [] without padding, and `src_tokens` [(B, S)].
            beam: W, the greatest number of hypotheses of a sentence.
            with_attention: whether `advance` returns the attention to the source; it also depends
                on the decoder's `alignment_wanted`, where it has one.
        """
        return DecoderBeams(self, encoder_out, beam, with_attention)


class DecoderBeams:
    """The hypotheses of one batch; each `advance` appends a token. See `stepping.Beams`."""

    def __init__(
        self,
        packed: PackedDecoder,
        encoder_out: dict[str, list[Tensor]],
        beam: int,
        with_attention: bool,
    ) -> None:
        self.decoder = decoder = packed.decoder
        self.with_attention = with_attention and getattr(decoder, "alignment_wanted", True)
        self.projection = packed.projection
        padding = encoder_out["encoder_padding_mask"]
        mask = padding[0] if padding else None
        memory = encoder_out["encoder_out"][0].transpose(0, 1)  # (S, B, D) -> (B, S, D)
        self.stack = DecoderStack(packed.layers, memory, mask, beam, decoder.window)
        self.length = 0  # of the hypotheses
        self.next_words: NextWords | None = None
        if getattr(decoder, "next_word", None) is not None:
            self.next_words = NextWords(decoder.next_word, encoder_out["src_tokens"][0], memory)

    def advance(self, tokens: Tensor, parents: Tensor | None) -> Tensor | None:
        """Append a token to every hypothesis.

        Args:
            tokens: (B, W).
            parents: (B, W), the earlier hypothesis that each one continues; None at first.

        Returns:
            Attention to the source, (B, W, S), or None where it is not wanted.
        """
        position = torch.full((1, 1), self.length, device=tokens.device)
        x = add_positions(self.decoder.embedding(tokens), self.decoder.positions(position))
        if self.next_words:
            x = x + self.next_words.advance(tokens, parents)
        self.length += 1
        self.features, attention = self.stack.step(x, parents)
        return attention.mean(dim=1) if self.with_attention else None

    def logits(self, sentences: slice) -> Tensor:
        """Return the logits of the next token, (b, W, V), in a new tensor."""
        features = self.features[sentences]
        return self.projection(features.flatten(0, 1)).unflatten(0, features.shape[:2])

    def keep(self, sentences: Tensor) -> None:
        """Keep these sentences only: (B',), their numbers in the batch."""
        self.stack.keep(sentences)
        if self.next_words:
            self.next_words.keep(sentences)


class NextWords:
    """The next word of each hypothesis in a search: see `modules.parser.NextWord`.

    Args:
        module: the decoder's module.
        source: (B, S).
        memory: encoder output, (B, S, D).
    """

    def __init__(self, module: NextWord, source: Tensor, memory: Tensor) -> None:
        self.module = module
        self.words = module.words(source, memory)
        self.written = source.new_zeros(len(source), 1)  # number of words, (B, W)

    def advance(self, tokens: Tensor, parents: Tensor | None) -> Tensor:
        """Append a symbol to every hypothesis.

        Args:
            tokens: (B, W).
            parents: (B, W), the earlier hypothesis that each one continues; None at first.

        Returns:
            Vectors to add to the embeddings of the symbols, (B, W, D).
        """
        before = self.written if parents is None else self.written.gather(1, parents)
        self.written = before + self.module.is_word[tokens].long()
        return self.module(self.words, self.written)

    def keep(self, sentences: Tensor) -> None:
        """Keep these sentences only, (B',)."""
        self.words, self.written = self.words[sentences], self.written[sentences]
