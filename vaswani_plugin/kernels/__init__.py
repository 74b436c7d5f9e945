"""Kernels: faster functions that replace functions of `modules` in a built model.

    model = accelerate(model)

A kernel has the same value and gradient as the plain function, and calls the plain function where
the kernel doesn't apply. Two replace no module: the packed decoding step replaces a decoder in the
search, and `attention` chooses among PyTorch's own functions for Eq. 1 on a GPU. Parameters and
`state_dict` stay as they are. `VASWANI_KERNELS=off` uses no kernels;
`VASWANI_KERNELS=linear,fused_loss` uses only the named ones. `recipes/benchmarks/kernels.sh`
measures the gain of each.
"""

import os
import re

import torch
from torch import nn

from vaswani_plugin.errors import UserError
from vaswani_plugin.kernels.matrix_library import chosen_library
from vaswani_plugin.kernels.packed_step import Packing

VARIABLE = "VASWANI_KERNELS"
NAMES = ("linear", "add_norm", "fused_loss", "packed_step", "attention")


def wanted_kernels() -> tuple[str, ...]:
    """Return the names of the kernels that `VASWANI_KERNELS` asks for; all where it isn't set.

    Raises:
        UserError: a name is unknown.
    """
    text = os.environ.get(VARIABLE, "").strip()
    named = {"on": NAMES, "": NAMES, "off": ()}.get(text, tuple(re.split(r"\s*,\s*", text)))
    if unknown := [name for name in named if name not in NAMES]:
        known = f"give on, off, or some of {', '.join(NAMES)}"
        raise UserError(f"{VARIABLE}={text}: no kernel {unknown[0]!r}: {known}")
    return named


def accelerate(model: nn.Module) -> nn.Module:
    """Replace plain parts of a model by kernels, in place.

    Args:
        model: a model built of `modules`. Parts of other classes, also of subclasses, stay. In
            evaluation mode it gets no kernels that only serve training.

    Returns:
        The model.
    """
    wanted = wanted_kernels()
    linear = "linear" in wanted and chosen_library() == "onednn"
    add_norm = "add_norm" in wanted and model.training
    if linear or add_norm:
        from vaswani_plugin.kernels import layers

        pairs = (linear, layers.OneDNNLinear), (add_norm, layers.FusedAddNorm)
        kernels = {kernel.equals: kernel for is_wanted, kernel in pairs if is_wanted}
        for module in list(model.modules()):
            for name, child in list(module.named_children()):
                if type(child) in kernels:
                    setattr(module, name, kernels[type(child)](child).train(child.training))
    if "attention" in wanted:
        # cuDNN's function plans each shape that it hasn't seen for about 10 ms, and nearly every
        # batch of sentences has a new one: base trains faster with PyTorch's other functions.
        torch.backends.cuda.enable_cudnn_sdp(False)
    if "fused_loss" in wanted and hasattr(model, "projected_loss"):  # only training has a loss
        from vaswani_plugin.kernels.fused_loss import fused_projected_loss
        from vaswani_plugin.modules.loss import projected_loss

        if model.projected_loss is projected_loss:
            model.projected_loss = fused_projected_loss
    return model


def packing() -> Packing | None:
    """Make what packs a decoder's weights for search; None where that kernel is not wanted."""
    return Packing() if "packed_step" in wanted_kernels() else None
