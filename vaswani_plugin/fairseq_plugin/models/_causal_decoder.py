"""The part of fairseq's decoder interface that translation and language models share.

Axes: B batch, T tokens, D d_model, V vocabulary.
"""

from typing import Any

from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor

from vaswani_plugin.errors import UserError

IncrementalState = dict[str, dict[str, Tensor]]
"""The cache of `modules.transformer` under fairseq's name."""


class CausalDecoder(FairseqIncrementalDecoder):
    """Base class that adds fairseq's interface to a decoder of `modules`.

    It comes after that decoder in the list of bases; the subclass sets the attributes.

    Attributes:
        max_target_positions: longest sequence in tokens, the end-of-sentence token included.
        trains_right_padded: whether training batches are padded on the right only.
        weights_are_final: whether the weights no longer change.
    """

    max_target_positions: int
    trains_right_padded: bool = False
    weights_are_final: bool = False

    def __init__(self) -> None:
        super().__init__(dictionary=None)

    def make_generation_fast_(self, retain_dropout: bool = False, **unused: Any) -> None:
        """Mark the weights as final; fairseq's commands call this before they generate.

        Args:
            retain_dropout: must be False.
            unused: fairseq's other options; ignored.

        Raises:
            UserError: when dropout is to stay on.
        """
        refuse_retained_dropout(retain_dropout)
        self.weights_are_final = True

    @property
    def right_padded(self) -> bool:
        """Whether padding is on the right only, so that the causal mask covers it.

        Outside of training padding may be on either side.
        """
        return self.training and self.trains_right_padded

    def output_layer(self, features: Tensor) -> Tensor:
        """Project features (..., D) to logits (..., V)."""
        return self.project(features)

    def reorder_incremental_state(
        self, incremental_state: IncrementalState, new_order: Tensor
    ) -> None:
        """Reorder the rows of every cache: the new row i is the old row `new_order[i]`.

        Args:
            incremental_state: the cache, changed in place.
            new_order: indices of old rows, (B',).
        """
        for cache in incremental_state.values():
            for name, tensor in cache.items():
                cache[name] = tensor.index_select(0, new_order)

    def max_positions(self) -> int:
        """Longest sequence in tokens, the end-of-sentence token included."""
        return self.max_target_positions


def refuse_retained_dropout(is_wanted: bool) -> None:
    """Refuse --retain-dropout, which would have no effect.

    Raises:
        UserError: when dropout is to stay on in generation.
    """
    if is_wanted:
        raise UserError(
            "--retain-dropout: models of this plugin generate without dropout; drop the flag"
        )


def pads_right(task: Any) -> bool:
    """Whether a task pads its targets on the right, as fairseq's tasks do."""
    return not getattr(getattr(task, "cfg", None), "left_pad_target", True)
