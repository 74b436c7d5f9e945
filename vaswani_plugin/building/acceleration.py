"""The only place that knows `vaswani_plugin.kernels`."""

from torch import nn

from vaswani_plugin import kernels


def accelerated(model: nn.Module) -> nn.Module:
    """Make a built model faster on a CPU; what it computes stays the same."""
    return kernels.accelerate(model)
