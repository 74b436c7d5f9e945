"""Members that our models share; these classes come before fairseq's in a model's bases.

Axes: D width of the features, V vocabulary.
"""

import argparse
from typing import Self

from torch import Tensor

from vaswani_plugin.fairseq_plugin.models._parts import require_compiler
from vaswani_plugin.fairseq_plugin.models._stock_flags import refuse_stock_flags
from vaswani_plugin.modules.loss import projected_loss


class ProjectedLoss:
    """Lets a criterion project the features."""

    projected_loss = staticmethod(projected_loss)
    """Projects features and computes their loss, for a criterion."""

    @property
    def projection_weight(self) -> Tensor:
        """The rows of the pre-softmax projection (V, D), for a loss that projects itself.

        A decoder without `projection` projects by the matrix that embeds.
        """
        return getattr(self.decoder, "projection", self.decoder.embedding).weight


class PaperModel(ProjectedLoss):
    """A model of Figure 1, of which fairseq has its own; it has a configuration, `cfg`."""

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        """Add the model's flags; refuse those of fairseq's Transformer and name ours instead."""
        super().add_args(parser)
        refuse_stock_flags(parser)

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode, as `torch.nn.Module.train` does.

        Raises:
            UserError: when the layers are to be compiled and there is no C++ compiler.
        """
        if mode:
            require_compiler(self.cfg)
        return super().train(mode)
