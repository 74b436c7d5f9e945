"""--amp on a CPU: PyTorch's autocast in bfloat16; fairseq has autocast on a GPU only."""

from typing import Any

import torch
from fairseq.optim.amp_optimizer import AMPOptimizer

from vaswani_plugin.devices import runs_on_host


class AutocastOnCPU:
    """Gives a fairseq task --amp in bfloat16 on a CPU; comes before fairseq's class in the bases.

    Parameters, moments, normalization, softmax and loss stay in float32. bfloat16 needs no loss
    scaling.
    """

    def train_step(
        self, sample: dict, model: Any, criterion: Any, optimizer: Any, *args: Any, **kwargs: Any
    ) -> tuple:
        """fairseq's `train_step`: forward, loss and backward of one batch."""
        device = next(model.parameters()).device
        if isinstance(optimizer, AMPOptimizer) and runs_on_host(device):
            plain = criterion

            def criterion(*arguments: Any) -> tuple:
                with torch.autocast("cpu", torch.bfloat16):
                    return plain(*arguments)

        return super().train_step(sample, model, criterion, optimizer, *args, **kwargs)
