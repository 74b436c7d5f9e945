"""What the decoders of translation and language models share of fairseq's interface.

Axes: B batch, T tokens, D d_model, V vocabulary.
"""

from typing import Any

from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor

from vaswani_plugin.errors import UserError

IncrementalState = dict[str, dict[str, Tensor]]
"""The cache of `modules.transformer` under fairseq's name."""


class CausalDecoder(FairseqIncrementalDecoder):
    """Comes behind a decoder of `modules` in a class's bases; that class sets the attributes.

    Attributes:
        max_target_positions: longest sequence in tokens, the end-of-sentence token included.
        trains_right_padded: whether training batches are padded behind their tokens only.
        weights_are_final: whether nothing writes into the weights any more.
    """

    max_target_positions: int
    trains_right_padded: bool = False
    weights_are_final: bool = False

    def __init__(self) -> None:
        super().__init__(dictionary=None)

    def make_generation_fast_(self, retain_dropout: bool = False, **unused: Any) -> None:
        """fairseq's commands call this before they generate: the weights don't change any more.

        Raises:
            UserError: when dropout is to stay on.
        """
        refuse_retained_dropout(retain_dropout)
        self.weights_are_final = True

    @property
    def right_padded(self) -> bool:
        """Whether padding needs no mask; outside of training it may stand on either side."""
        return self.training and self.trains_right_padded

    def output_layer(self, features: Tensor) -> Tensor:
        """(..., D) -> logits (..., V)."""
        return self.project(features)

    def reorder_incremental_state(
        self, incremental_state: IncrementalState, new_order: Tensor
    ) -> None:
        """Let every cache follow the beams: row i becomes what row `new_order[i]` was."""
        for cache in incremental_state.values():
            for name, tensor in cache.items():
                cache[name] = tensor.index_select(0, new_order)

    def max_positions(self) -> int:
        """Longest sequence in tokens, the end-of-sentence token included."""
        return self.max_target_positions


def refuse_retained_dropout(is_wanted: bool) -> None:
    """Refuse what would have no effect.

    Raises:
        UserError: when dropout is to stay on in generation.
    """
    if is_wanted:
        raise UserError(
            "--retain-dropout: models of this plugin generate without dropout; drop the flag"
        )


def pads_right(task: Any) -> bool:
    """Whether a task pads the targets of its batches behind their tokens, as fairseq's do."""
    return not getattr(getattr(task, "cfg", None), "left_pad_target", True)
