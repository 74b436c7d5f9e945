"""A recurrent language model: a stack of LSTMs over the words, with dropout everywhere.

The lecture notes compare the Transformer with an "LSTM + dropout". This is that of Merity et al.
(2017, "Regularizing and Optimizing LSTM Language Models"), with the five kinds of dropout of their
sections 2 and 4:

    x_0 = locked(words(E)[tokens] s)      words: whole rows of E; locked: one mask for all steps
    x_n = LSTM_n(x_{n-1}; W, drop(U))     drop: single weights from state to state
    y   = locked(x_N)                     and locked between the layers
    Pr(X_{t+1} = j | w_1 ... w_t) = softmax(y_t E^T)_j

The factor s, the square root of the embeddings' width, is the Transformer's (section 3.4) and not
theirs: with Adam and rows as small as a projection wants them, the states hardly move at first.

Axes: B batch, T words, E width of the embeddings, H units of a layer, N layers, V vocabulary.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from vaswani_plugin.ancestors.recurrent import make_lstm
from vaswani_plugin.modules.embedding import Embedding

States = list[tuple[Tensor, Tensor]]
"""h and c of each layer after the last word, (B, H), and of the last layer (B, E)."""

RECURRENT_WEIGHT = "weight_hh_l0"  # PyTorch's name of U, from a layer's state to its gates


class Dropouts(NamedTuple):
    """Probabilities of dropping, each from 0 to 1 (Merity et al. 2017)."""

    outputs: float = 0.0  # an element of the last layer's output, in all steps (section 4.2)
    hidden: float = 0.0  # an element of another layer's output, in all steps (4.2)
    inputs: float = 0.0  # an element of the embedded words, in all steps (4.2)
    words: float = 0.0  # a word, wherever it stands in the batch (4.3)
    weights: float = 0.0  # a weight between the states of a layer (weight-drop, section 2)


def locked_dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Drop the same elements of x (B, T, D) in every step of a text."""
    if not training or p == 0:
        return x
    return x * F.dropout(torch.ones_like(x[:, :1]), p)


def word_dropout(x: Tensor, tokens: Tensor, vocabulary: int, p: float, training: bool) -> Tensor:
    """Drop embedded words (B, T, D): one that is dropped is so wherever it stands in the batch."""
    if not training or p == 0:
        return x
    return x * F.dropout(x.new_ones(vocabulary), p)[tokens][:, :, None]


class RecurrentLanguageModel(nn.Module):
    """N layers of LSTM; one matrix embeds and projects, so the last layer has E units.

    `vocabulary` is V, `width` E, `units` H, of the layers before the last one.
    """

    def __init__(
        self,
        vocabulary: int,
        padding_idx: int,
        width: int,
        units: int,
        layers: int,
        dropouts: Dropouts,
    ) -> None:
        super().__init__()
        self.padding_idx, self.dropouts = padding_idx, dropouts
        self.embedding = Embedding(vocabulary, width, padding_idx)
        last = layers - 1
        self.lstms = nn.ModuleList(
            make_lstm(units if n else width, units if n < last else width, 1, 0.0, False)
            for n in range(layers)
        )

    def read(
        self, tokens: Tensor, states: States | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, States]:
        """Compute the features of each next word, and the new states.

        `tokens` are the words that are read, (B, T), padded on the right; `states` those after the
        words before them (None: zeros). `lengths` (B,), on the CPU, are the numbers of words after
        which the new states are (None: T). Features (B, T, E) at padding mean nothing.
        """
        training, p = self.training, self.dropouts
        vocabulary = len(self.embedding.weight)
        x = word_dropout(self.embedding(tokens), tokens, vocabulary, p.words, training)
        x = locked_dropout(x, p.inputs, training)
        after: States = []
        for number, lstm in enumerate(self.lstms):
            if number:
                x = locked_dropout(x, p.hidden, training)
            before = None if states is None else tuple(s[None] for s in states[number])
            x, (h, c) = self._run(lstm, x, before, lengths)
            after.append((h[0], c[0]))
        return locked_dropout(x, p.outputs, training), after

    def _run(
        self, lstm: nn.Module, x: Tensor, state: tuple[Tensor, ...] | None, lengths: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """One layer: x (B, T, I) -> (B, T, O), and its state, each (1, B, O)."""
        inputs: Any = x
        if lengths is not None:
            inputs = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        weights = {}
        if self.training and self.dropouts.weights:
            dropped = F.dropout(getattr(lstm, RECURRENT_WEIGHT), self.dropouts.weights)
            weights[RECURRENT_WEIGHT] = dropped
        y, after = torch.func.functional_call(lstm, weights, (inputs, state))
        if lengths is not None:
            y, _ = pad_packed_sequence(y, batch_first=True, total_length=x.size(1))
        return y, after

    def forward(self, tokens: Tensor) -> Tensor:
        """Compute the logits of each next word, (B, T, V), of texts (B, T)."""
        return self.project(self.read(tokens)[0])

    def project(self, features: Tensor) -> Tensor:
        """(..., E) -> logits (..., V)."""
        return self.embedding.project(features)
