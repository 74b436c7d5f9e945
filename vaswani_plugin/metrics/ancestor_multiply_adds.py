"""Multiply-adds of the models before self-attention: LSTMs and ConvS2S (Gehring et al. 2017).

Only matrix products are counted, as in `multiply_adds.py`. Axes: S source positions, T target
positions, D width, C channels, E width of the embeddings, K kernel, V vocabulary.
"""

from dataclasses import dataclass

from vaswani_plugin.metrics.multiply_adds import Positions

GATES = 4  # of an LSTM: input, forget, cell, output


@dataclass(frozen=True)
class RecurrentSizes:
    """The sizes that determine the cost of a recurrent encoder-decoder.

    both_ways: the encoder is a Bi-LSTM with D/2 units a direction; else an LSTM with D units.
    attention: "none", "mean", "dot" (scaled or not) or "additive"; see modules/recurrent.py.
    input_feeding: the decoder's input is 2 D wide.
    """

    d_model: int
    layers: int
    vocabulary: int
    both_ways: bool = False
    attention: str = "none"
    input_feeding: bool = False

    def multiply_adds(self, batch: Positions) -> dict[str, int]:
        """Multiply-adds of the forward pass, by part of the model."""
        d = self.d_model
        reading = lstm_multiply_adds(d, d)
        if self.both_ways:
            reading = 2 * lstm_multiply_adds(d, d // 2)
        writing = self.layers * lstm_multiply_adds(d, d)
        if self.input_feeding:
            writing += GATES * d * d
        return {
            "encoder LSTM": batch.source * self.layers * reading,
            "decoder LSTM": batch.target * writing,
            "attention": self._attention(batch),
            "projection to the vocabulary": batch.predicted * d * self.vocabulary,
        }

    def _attention(self, batch: Positions) -> int:
        """Multiply-adds of the scores, of the weights times h, and of W [c; s]."""
        d = self.d_model
        if self.attention == "none":
            return 0
        scores = {
            "mean": 0,
            "dot": d * batch.cross_pairs,
            "additive": d * batch.cross_pairs + d * d * (batch.source + batch.target),
        }[self.attention]
        return scores + d * batch.cross_pairs + 2 * d * d * batch.target


@dataclass(frozen=True)
class RecurrentLanguageModelSizes:
    """The sizes that determine the cost of a recurrent language model.

    d_model: width of the embeddings, and units of the last layer; units: of the other layers.
    """

    d_model: int
    units: int
    layers: int
    vocabulary: int

    def multiply_adds(self, batch: Positions) -> dict[str, int]:
        """Multiply-adds of the forward pass, by part of the model; the text is the target."""
        widths = [self.d_model, *[self.units] * (self.layers - 1), self.d_model]
        pairs = zip(widths[:-1], widths[1:], strict=True)
        return {
            "LSTM": batch.target * sum(lstm_multiply_adds(*pair) for pair in pairs),
            "projection to the vocabulary": batch.predicted * self.d_model * self.vocabulary,
        }


@dataclass(frozen=True)
class ConvolutionalSizes:
    """The sizes that determine the cost of fairseq's `fconv`; each decoder layer has attention.

    encoder, decoder: (C, K) of each layer. out_width: input width of the last projection.
    """

    width: int
    encoder: tuple[tuple[int, int], ...]
    decoder: tuple[tuple[int, int], ...]
    out_width: int
    vocabulary: int

    def multiply_adds(self, batch: Positions) -> dict[str, int]:
        """Multiply-adds of the forward pass, by part of the model; zero padding counts as input."""
        e = self.width
        channels, _ = self.decoder[-1]
        attention = [
            2 * e * c * batch.target + 2 * e * batch.cross_pairs for c, _ in self.decoder
        ]  # into the embedding's width and back; scores and sums
        return {
            "encoder convolutions": batch.source * _convolutions(e, self.encoder),
            "encoder output": batch.source * self.encoder[-1][0] * e,
            "decoder convolutions": batch.target * _convolutions(e, self.decoder),
            "attention": sum(attention),
            "decoder output": batch.target * channels * self.out_width,
            "projection to the vocabulary": batch.predicted * self.out_width * self.vocabulary,
        }


def lstm_multiply_adds(inputs: int, units: int) -> int:
    """Multiply-adds of one LSTM layer at one position.

    Args:
        inputs: width of the input.
        units: width of the state; the gates read the input and the previous state.
    """
    return GATES * units * (inputs + units)


def _convolutions(width: int, layers: tuple[tuple[int, int], ...]) -> int:
    """Multiply-adds at one position: the projection from E to the first C, then each layer."""
    inputs = layers[0][0]
    total = width * inputs
    for channels, kernel in layers:
        total += kernel * inputs * 2 * channels  # half of the 2 C are the gates of GLU
        total += inputs * channels if inputs != channels else 0  # the residual's projection
        inputs = channels
    return total
