"""The search's interface to models: append tokens to hypotheses, get log P of the next tokens.

Our models decode with packed weights. Other encoder-decoders of fairseq decode with their own
`forward` and, if their decoder is incremental, its `incremental_state`.

Axes: B sentences, W beams, R = B W rows, V vocabulary, S source length.
"""

import math
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from vaswani_plugin.devices import runs_on_host
from vaswani_plugin.errors import UserError
from vaswani_plugin.search.packing import Packed
from vaswani_plugin.search.rows import RowBeams


class Beams(Protocol):
    """The hypotheses of one batch in one model.

    A class whose `logits` are already log-probabilities has an attribute `normalized`, True.
    """

    def advance(self, tokens: Tensor, parents: Tensor | None) -> Tensor | None:
        """Append tokens (B, W) to the earlier hypotheses `parents` (B, W); None at first.

        Returns the attention to the source, (B, W, S), where there is one.
        """

    def logits(self, sentences: slice) -> Tensor:
        """Return the logits of the next token, (b, W, V), in a new tensor."""

    def keep(self, sentences: Tensor) -> None:
        """Keep these sentences only, (B',)."""


def attention_of(extra: object) -> Tensor | None:
    """Return the attention (R, T, S) of a decoder of fairseq, or None.

    Args:
        extra: the decoder's second result. A Transformer's is a dictionary with a list under
            "attn"; a convolutional or recurrent model's is the tensor itself.
    """
    if isinstance(extra, dict):
        extra = extra.get("attn")
    if isinstance(extra, list):
        extra = extra[0] if extra else None
    return extra if torch.is_tensor(extra) else None


class ForeignBeams(RowBeams):
    """`Beams` for any encoder-decoder of fairseq, with its decoder's own `forward`.

    Args:
        model: a model with an `encoder` and a `decoder`.
        encoder_out: fairseq's encoder output, one row per sentence.
        temperature: divides the logits.
    """

    def __init__(self, model, encoder_out, temperature: float) -> None:
        self.model = model
        self.encoder_out = encoder_out
        self.temperature = temperature
        self.normalized = True
        self.incremental = hasattr(model.decoder, "reorder_incremental_state_scripting")
        self.state: dict = {}
        self.history: Tensor | None = None  # (R, T)
        for module in model.modules():
            # Some attentions of fairseq take `beam_size` consecutive rows for one sentence. Here a
            # sentence has one row at the first step. With a beam size of 1 every row is separate.
            if hasattr(module, "set_beam_size"):
                module.set_beam_size(1)

    def advance(self, tokens: Tensor, parents: Tensor | None) -> Tensor | None:
        """See `Beams`."""
        self.follow(tokens, parents)
        new = tokens.reshape(-1, 1)
        self.history = new if parents is None else torch.cat((self.history, new), dim=1)
        decoder = self.model.decoder
        state = {"incremental_state": self.state} if self.incremental else {}
        logits, extra = decoder(self.history, encoder_out=self.encoder_out, **state)
        logits = logits[:, -1:] / self.temperature
        self.log_p = self.model.get_normalized_probs((logits, extra), log_probs=True)[:, -1]
        attention = attention_of(extra)
        if attention is None:
            return None
        return attention[:, -1].unflatten(0, (-1, self.beams))

    def logits(self, sentences: slice) -> Tensor:
        """See `Beams`."""
        return self.log_p.unflatten(0, (-1, self.beams))[sentences].clone()

    def select_rows(self, rows: Tensor) -> None:
        """See `RowBeams`."""
        self.history = self.history.index_select(0, rows)
        self.encoder_out = self.model.encoder.reorder_encoder_out(self.encoder_out, rows)
        if self.incremental:
            self.model.decoder.reorder_incremental_state_scripting(self.state, rows)


class Ensemble:
    """Models that decode together, by the mean of their probabilities and of their attention.

    Args:
        models: fairseq's models, over the same dictionaries.
        packed: packed weights of each model; None where its `forward` decodes.
        net_input: the encoders' arguments: `src_tokens` and others.
        known_lengths: lengths of the sources (B,), for encoders that take them.
        beam: W, the greatest number of hypotheses of a sentence.
        temperature: divides the logits of every model.
        vocabulary: V, entries of the target dictionary.
        with_attention: whether `advance` returns the attention of our models.
    """

    def __init__(
        self,
        models: list,
        packed: list[Packed | None],
        net_input: dict,
        beam: int,
        temperature: float,
        vocabulary: int,
        with_attention: bool = True,
        known_lengths: np.ndarray | None = None,
    ) -> None:
        self.temperature = temperature
        self.vocabulary = vocabulary
        self.members: list[Beams] = []
        for model, weights in zip(models, packed, strict=True):
            inputs = net_input
            if getattr(model, "takes_known_lengths", False):
                inputs = {**net_input, "known_lengths": known_lengths}
            encoder_out = model.encoder.forward_torchscript(inputs)
            if weights is not None:
                self.members.append(weights.begin(encoder_out, beam, with_attention))
            elif hasattr(model, "begin_beams"):
                self.members.append(model.begin_beams(encoder_out))
            else:
                self.members.append(ForeignBeams(model, encoder_out, temperature))

    def advance(self, tokens: Tensor, parents: Tensor | None) -> Tensor | None:
        """See `Beams`."""
        attentions = [member.advance(tokens, parents) for member in self.members]
        found = [attention for attention in attentions if attention is not None]
        return sum(found) / len(found) if found else None

    def keep(self, sentences: Tensor) -> None:
        """See `Beams`."""
        for member in self.members:
            member.keep(sentences)

    def log_probabilities(self, sentences: slice) -> Tensor:
        """Return log P of the next token, (b, W, V), in a new tensor, float32 or better.

        Raises:
            UserError: when a model has more or fewer tokens than the dictionary.
        """
        columns = [self._log_softmax(member, sentences) for member in self.members]
        if len(columns) == 1:
            return columns[0]
        return torch.stack(columns).logsumexp(dim=0) - math.log(len(columns))

    def _log_softmax(self, member: Beams, sentences: slice) -> Tensor:
        logits = member.logits(sentences)
        if logits.size(-1) != self.vocabulary:
            raise UserError(
                f"the model knows {logits.size(-1)} tokens and the target dictionary "
                f"{self.vocabulary}; give the data folder (its dict.*.txt) that it was trained on"
            )
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        if getattr(member, "normalized", False):
            return logits
        if self.temperature != 1:
            logits /= self.temperature
        if not runs_on_host(logits.device):
            return logits.log_softmax(-1)
        # In place: new memory would cost more time than the function itself.
        return torch.ops.aten._log_softmax.out(logits, -1, False, out=logits)
