"""The only place that knows `vaswani_plugin.kernels`."""

from typing import TypeVar

from torch import nn

from vaswani_plugin import kernels

Model = TypeVar("Model", bound=nn.Module)


def accelerated(model: Model) -> Model:
    """Make a built model faster on a CPU; what it computes stays the same."""
    kernels.accelerate(model)
    return model
