"""Kernels: faster functions that replace functions of `modules` in a built model.

    model = accelerate(model)

A kernel takes the place of one leaf: a layer, or a function such as Eq. 1. Which leaf follows which
is code of `modules` alone. Before, both are run and compared (`proof.py`): a leaf that computes
anything else stays. Where a kernel doesn't apply, it calls the leaf. `packed_step` puts kernels
into a copy of a decoder, for the search. Parameters and `state_dict` stay as they are.
`VASWANI_KERNELS=off` uses no kernels; `VASWANI_KERNELS=linear,fused_loss` uses only the named ones.
`recipes/benchmarks/kernels.sh` measures the gain of each.
"""

import os
import re
from typing import Any

from torch import nn

from vaswani_plugin.errors import UserError
from vaswani_plugin.kernels.attention import applies_to, fused_attention
from vaswani_plugin.kernels.matrix_library import chosen_library
from vaswani_plugin.kernels.packed import Packing
from vaswani_plugin.modules.attention import MultiHeadAttention

VARIABLE = "VASWANI_KERNELS"
NAMES = ("linear", "add_norm", "fused_loss", "packed_step", "attention", "search")


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
    """Replace plain parts of a model, built of `modules`, by kernels, in place; return the model.

    In evaluation mode it gets no kernels that only serve training.
    """
    wanted, kinds = wanted_kernels(), list[Any]()
    linear = "linear" in wanted and chosen_library() == "onednn"
    if linear or ("add_norm" in wanted and model.training):
        from vaswani_plugin.kernels import layers

        kinds += [layers.OneDNNLinear] if linear else []
        kinds += [layers.FusedAddNorm] if "add_norm" in wanted and model.training else []
    module: Any
    for module in list(model.modules()):
        for name, child in list(module.named_children() if kinds else ()):
            if (kernel := layers.replacement_of(child, kinds)) is not None:
                setattr(module, name, kernel.train(child.training))
        is_attention = isinstance(module, MultiHeadAttention) and "attend" not in vars(module)
        if "attention" in wanted and is_attention and applies_to(module):
            module.attend = fused_attention
    if "fused_loss" in wanted and hasattr(model, "projected_loss"):  # only training has a loss
        from vaswani_plugin.kernels.fused_loss import fused_loss_of

        training: Any = model
        training.projected_loss = fused_loss_of(model)
    return model


def packing() -> Packing | None:
    """Make what packs a decoder's weights for search; None where that kernel is not wanted."""
    return Packing() if "packed_step" in wanted_kernels() else None


def speeds_up_search() -> bool:
    """Return whether a search takes its shortcuts: blocks of the vocabulary, softmax in place."""
    return "search" in wanted_kernels()
