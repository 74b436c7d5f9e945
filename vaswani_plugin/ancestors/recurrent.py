"""The models before self-attention: deep LSTMs, with and without attention.

The decoder of Sutskever et al. (2014) sees only the encoder's final states. With attention, each
step has its own context c_i = sum_j alpha_ij h_j, where alpha_i is the softmax over j of a score:
s_i . h_j (Luong et al. 2015), s_i . h_j / sqrt(D), or v . tanh(W s_i + U h_j). The last is that of
Bahdanau et al. (2014), who score with the state before the step, s_{i-1}. A third kind of decoder
has the same context at every step, the mean of the h_j.

Axes: B batch, S source length, T target length, D units of a layer, N layers, V vocabulary.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from vaswani_plugin.modules.attention import masked_softmax, scaled_dot_product_attention

State = tuple[Tensor, Tensor]  # h and c of every layer after the last step, each (N, B, D)
Mask = Tensor | None
Contexts = tuple[Tensor, Tensor]


def initialize_uniformly(module: nn.Module) -> None:
    """Draw every parameter from uniform(-0.08, 0.08) (Sutskever et al. 2014, section 3.4)."""
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -0.08, 0.08)


def lengths_on_cpu(padding: Tensor) -> Tensor:
    """Count the real tokens of each sentence, (B,), in a batch (B, S) that is True at padding.

    PyTorch packs sequences by lengths on the CPU. A recurrent model waits for its device only here,
    once per batch, and not at all if the caller knows the lengths already.
    """
    return (~padding).sum(dim=1).cpu()


def reading_order(padding: Tensor, reverse: bool = False) -> Tensor:
    """Return the columns of the real tokens in reading order, then those of the padding, (B, S).

    `padding` (B, S) is True at padding, on either side; `reverse` reads from last to first.
    """
    if not reverse:
        return padding.byte().argsort(dim=1, stable=True)
    return padding.size(1) - 1 - padding.flip(1).byte().argsort(dim=1, stable=True)


def reordered(x: Tensor, order: Tensor) -> Tensor:
    """Reorder the positions of x (B, S, D) by the column numbers `order` (B, S)."""
    return x.gather(1, order[:, :, None].expand(-1, -1, x.size(2)))


def make_lstm(inputs: int, units: int, layers: int, dropout: float, both_ways: bool) -> nn.LSTM:
    """Make PyTorch's LSTM, batch first, with dropout between the layers."""
    dropout = dropout if layers > 1 else 0.0  # PyTorch warns of dropout in a single layer
    return nn.LSTM(
        inputs, units, layers, batch_first=True, dropout=dropout, bidirectional=both_ways
    )


class RecurrentEncoder(nn.Module):
    """A deep LSTM over the real tokens of each sentence: padding is not read.

    `width` is D; `both_ways`: each layer is two LSTMs of D/2 units, one of which reads backwards;
    `reverse`: read the sentence backwards, so that its first words are near the translation's first
    words (Sutskever et al. 2014, section 3.3).
    """

    def __init__(
        self,
        width: int,
        layers: int,
        dropout: float,
        both_ways: bool = False,
        reverse: bool = False,
    ) -> None:
        super().__init__()
        self.both_ways, self.reverse = both_ways, reverse
        self.lstm = make_lstm(width, width // (1 + both_ways), layers, dropout, both_ways)

    def forward(self, x: Tensor, padding: Tensor, lengths: Tensor) -> tuple[Tensor, State]:
        """Encode embedded tokens x (B, S, D), with padding (B, S), True there, on either side.

        `lengths` (B,) are `lengths_on_cpu` of it: nothing else of the batch is copied. Returns the
        last layer's states, (B, S, D), each at the position of its token, 0 at padding; and the
        final states of each sentence, those of the two directions concatenated.
        """
        padded = bool((lengths < x.size(1)).any())
        moved = padded or self.reverse
        if moved:
            order = reading_order(padding, self.reverse)
            x = reordered(x, order)
        if padded:
            states, (h, c) = self._read_packed(x, padding, lengths)
        else:  # the same without the cost of packing
            states, (h, c) = self.lstm(x)
        if moved:
            states = reordered(states, order.argsort(dim=1))
        return states, (self._join(h), self._join(c))

    def _read_packed(self, x: Tensor, padding: Tensor, lengths: Tensor) -> tuple[Tensor, State]:
        """Run the LSTM over sentences (B, S, D) that are padded on the right."""
        # Packed sentences must be sorted, longest first. PyTorch would sort them on the host and
        # copy their order to the device and back, and each copy would wait.
        longest_first, by_length = lengths.sort(descending=True, stable=True)
        is_sorted = by_length.equal(torch.arange(len(lengths), device="cpu"))
        if not is_sorted:
            order = padding.sum(dim=1).argsort(stable=True)  # `by_length`, on the device
            x = x.index_select(0, order)
        packed = pack_padded_sequence(x, longest_first, batch_first=True)
        packed, (h, c) = self.lstm(packed)
        states, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.size(1))
        if not is_sorted:
            back = order.argsort()
            states = states.index_select(0, back)
            h, c = h.index_select(1, back), c.index_select(1, back)
        return states, (h, c)

    def _join(self, state: Tensor) -> Tensor:
        """(2 N, B, D/2) -> (N, B, D) where there are two directions."""
        return torch.cat((state[0::2], state[1::2]), dim=-1) if self.both_ways else state


class SourceContext(nn.Module, ABC):
    """Combines a decoder's state with its context: tanh(W [c_i; s_i]). Subclasses define c_i."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.combine = nn.Linear(2 * width, width, bias=False)

    @abstractmethod
    def contexts(self, states: Tensor, memory: Tensor, mask: Mask) -> Contexts:
        """Compute c (B, T, D) and alpha (B, T, S); `mask` (B, 1, S) is False at padding."""

    def forward(
        self, states: Tensor, memory: Tensor, padding: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Compute the combined states (B, T, D), and alpha (B, T, S), whose rows sum to 1.

        `states` are s_i (B, T, D), `memory` h_j (B, S, D), `padding` (B, S) is True there, or None.
        """
        mask = None if padding is None else ~padding[:, None]
        context, weights = self.contexts(states, memory, mask)
        return torch.tanh(self.combine(torch.cat((context, states), dim=-1))), weights


class DotAttention(SourceContext):
    """alpha_i = softmax_j(s_i . h_j); with `scaled`, s_i . h_j / sqrt(D), which is Eq. 1."""

    def __init__(self, width: int, scaled: bool = False) -> None:
        super().__init__(width)
        self.scale = None if scaled else 1.0

    def contexts(self, states: Tensor, memory: Tensor, mask: Mask) -> Contexts:
        return scaled_dot_product_attention(states, memory, memory, mask, self.scale)


class AdditiveAttention(SourceContext):
    """alpha_i = softmax_j(v . tanh(W s_i + U h_j)): a network with one hidden layer of D units."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.of_state = nn.Linear(width, width)
        self.of_source = nn.Linear(width, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)

    def contexts(self, states: Tensor, memory: Tensor, mask: Mask) -> Contexts:
        hidden = self.of_state(states)[:, :, None] + self.of_source(memory)[:, None]  # (B, T, S, D)
        weights = masked_softmax(self.score(torch.tanh(hidden)).squeeze(-1), mask)  # (B, T, S)
        return weights @ memory, weights


class MeanContext(SourceContext):
    """The same context at every step: alpha_ij = 1/S for every state."""

    def contexts(self, states: Tensor, memory: Tensor, mask: Mask) -> Contexts:
        if mask is None:
            mask = memory.new_ones(memory.size(0), 1, memory.size(1), dtype=torch.bool)
        seen = mask.to(memory.dtype)
        weights = (seen / seen.sum(dim=-1, keepdim=True)).expand(-1, states.size(1), -1)
        return weights @ memory, weights


class RecurrentDecoder(nn.Module):
    """A deep LSTM over the target, with or without attention to the source.

    `width` is D. Without `attention` the initial state is the only context. `input_feeding`: each
    step also reads the attention's output of the step before (Luong et al. 2015, section 3.3);
    training then can't compute all steps in one call of the LSTM.
    """

    def __init__(
        self,
        width: int,
        layers: int,
        dropout: float,
        attention: SourceContext | None = None,
        input_feeding: bool = False,
    ) -> None:
        super().__init__()
        self.width, self.input_feeding = width, input_feeding
        self.lstm = make_lstm(width * (1 + input_feeding), width, layers, dropout, False)
        self.attention = attention

    def forward(
        self,
        x: Tensor,
        state: State,
        memory: Tensor | None = None,
        padding: Tensor | None = None,
        fed: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None, State]:
        """Decode embedded tokens x (B, T, D), starting from a state.

        Attention reads the encoder's states `memory` (B, S, D) but for its `padding` (B, S). `fed`
        is for input feeding the output before the first token, (B, 1, D); None: zeros. Returns
        outputs (B, T, D), attention (B, T, S) or None, and the state after the last token.
        """
        if not self.input_feeding:
            return self._step(x, state, memory, padding)
        fed = torch.zeros_like(x[:, :1]) if fed is None else fed
        outputs, weights = [], []
        for token in x.split(1, dim=1):
            fed, alpha, state = self._step(torch.cat((token, fed), -1), state, memory, padding)
            outputs.append(fed)
            weights += [] if alpha is None else [alpha]
        return torch.cat(outputs, dim=1), torch.cat(weights, dim=1), state

    def _step(
        self, x: Tensor, state: State, memory: Tensor | None, padding: Tensor | None
    ) -> tuple[Tensor, Tensor | None, State]:
        states, state = self.lstm(x, state)
        if self.attention is None:
            return states, None, state
        return *self.attention(states, memory, padding), state


class RecurrentMemory(NamedTuple):
    """What a decoder reads of a batch of sources."""

    states: Tensor  # of the encoder's last layer, (B, S, D), 0 at padding
    padding: Tensor | None  # (B, S), True at padding; None: there is no padding
    final: State  # of each sentence

    def select(self, rows: Tensor) -> "RecurrentMemory":
        """Return the rows of these numbers, (B',); a number may occur repeatedly."""
        padding = None if self.padding is None else self.padding.index_select(0, rows)
        h, c = (state.index_select(1, rows) for state in self.final)
        return RecurrentMemory(self.states.index_select(0, rows), padding, (h, c))


class RecurrentOutput(NamedTuple):
    """Result of a decoder."""

    features: Tensor  # (B, T, D)
    weights: Tensor | None  # of its attention, (B, T, S)
    state: State  # after the last token


class SourceReader(nn.Module):
    """Embeds sources, with dropout, and runs the encoder's LSTM over them."""

    def __init__(self, embedding: nn.Embedding, layers: RecurrentEncoder, dropout: float) -> None:
        super().__init__()
        self.padding_idx: Any = embedding.padding_idx
        self.dropout = dropout
        self.embedding, self.layers = embedding, layers

    def read(self, tokens: Tensor, lengths: Tensor | None = None) -> RecurrentMemory:
        """Encode tokens (B, S), padded on either side; `lengths` (B,) are on the CPU, if known."""
        padding = tokens.eq(self.padding_idx)
        lengths = lengths_on_cpu(padding) if lengths is None else lengths
        x = F.dropout(self.embedding(tokens), self.dropout, self.training)
        states, final = self.layers(x, padding, lengths)
        is_padded = bool((lengths < tokens.size(1)).any())
        return RecurrentMemory(states, padding if is_padded else None, final)


class TargetReader(nn.Module):
    """Embeds targets, with dropout, runs the decoder's LSTM, and projects by another matrix."""

    def __init__(
        self,
        embedding: nn.Embedding,
        projection: nn.Embedding,
        layers: RecurrentDecoder,
        dropout: float,
    ) -> None:
        super().__init__()
        self.padding_idx: Any = embedding.padding_idx
        self.dropout = dropout
        self.embedding, self.projection, self.layers = embedding, projection, layers

    def read(
        self,
        tokens: Tensor,
        memory: RecurrentMemory,
        state: State | None = None,
        fed: Tensor | None = None,
        right_padded: bool = True,
    ) -> RecurrentOutput:
        """Compute the features of each next token, without the dropout before the projection.

        `tokens` are the target shifted right, (B, T); `state` is that before the first of them
        (None: the encoder's final states), and `fed`, for input feeding, the feature, (B, 1, D;
        None: zeros). `right_padded`: padding only follows the tokens; else it is put there first.
        """
        x = F.dropout(self.embedding(tokens), self.dropout, self.training)
        if not right_padded:
            order = reading_order(tokens.eq(self.padding_idx))
            x = reordered(x, order)
        seen = memory[:2] if self.layers.attention is not None else (None, None)
        output = RecurrentOutput(*self.layers(x, state or memory.final, *seen, fed))
        if not right_padded:
            back = order.argsort(dim=1)
            weights = None if output.weights is None else reordered(output.weights, back)
            output = RecurrentOutput(reordered(output.features, back), weights, output.state)
        return output

    def project(self, features: Tensor) -> Tensor:
        """(..., D) -> logits (..., V)."""
        return F.linear(features, self.projection.weight)


class RecurrentEncoderDecoder(nn.Module):
    """LSTMs for source and target; `longest`: of both, in tokens, the ends of sentence included."""

    def __init__(
        self, encoder: SourceReader, decoder: TargetReader, longest: tuple[int, int]
    ) -> None:
        super().__init__()
        self.encoder, self.decoder, self.longest = encoder, decoder, longest

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> RecurrentMemory:
        """Encode sources (B, S), padded on either side; for `lengths` see `SourceReader.read`."""
        return self.encoder.read(source, lengths)

    def decode(
        self, target: Tensor, memory: RecurrentMemory, right_padded: bool = True
    ) -> RecurrentOutput:
        """Compute the features of each next token of targets shifted right, (B, T)."""
        return self.decoder.read(target, memory, right_padded=right_padded)
