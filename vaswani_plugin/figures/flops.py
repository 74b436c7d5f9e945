"""FLOPs of a training, counted by torch.utils.flop_counter in a model on the device `meta`.

Tensors there have sizes but no data, so the largest model costs neither memory nor time. Counted
are matrix products and convolutions; sums, softmax and LayerNorm are about 1% more.

Axes: B sentences, S source positions, T target positions.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from vaswani_plugin.errors import UserError
from vaswani_plugin.model.build import build_sizes
from vaswani_plugin.model.families import Family, families
from vaswani_plugin.search.models import Sources

PAPER_UPDATES = 100_000
PAPER_UPDATES_OF_BIG = 300_000
TRAINING_PASSES = 3  # one product forward and two backward, for the gradients of its two factors


def forward_flops(
    family: Family, changes: Mapping[str, Any], vocabulary: int, shape: tuple[int, int, int]
) -> int:
    """FLOPs of the forward pass of one batch, the projection to the vocabulary included.

    `changes` are values of the model's configuration that are not the defaults, `vocabulary` rows
    of each embedding, `shape` B, S and T, padding included; a language model has no source.
    """
    sentences, source, target = shape
    names = (each.name for each in fields(family.configuration))
    longest = {name: max(shape) for name in names if re.fullmatch("max_.*_positions", name)}
    cfg = family.configuration(**{**changes, **longest})
    sizes = vocabulary, family.target_rows or vocabulary
    with torch.device("meta"), torch.no_grad(), FlopCounterMode(display=False) as counter:
        model = family.searched(build_sizes(family, cfg, sizes))
        texts = torch.zeros(sentences, source, dtype=torch.long)
        shifted = torch.zeros(sentences, target, dtype=torch.long)
        if family.writes_texts:
            features = model.features(shifted)
        else:
            memory = model.encode(Sources(texts, np.full(sentences, source), {}))
            features = model.model.decode(shifted, memory, right_padded=True).features
        model.decoder.project(features)
    return counter.get_total_flops()


def counted_flops(model: torch.nn.Module, *arguments: torch.Tensor) -> int:
    """FLOPs of a model's forward pass, also of one that fairseq builds, on the CPU.

    The counter knows no LSTM of oneDNN's, no fused attention, and not ConvS2S's convolution, of
    (T, B, C) inputs with (K, C, D) weights.
    """

    def conv_tbc(x: list[int], weight: list[int], *rest: Any, **options: Any) -> int:
        return 2 * x[0] * x[1] * math.prod(weight)

    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.conv_tbc: conv_tbc})
    onednn: Any = torch.backends.mkldnn  # its `flags` differ by PyTorch's version
    before, onednn.enabled = onednn.enabled, False
    try:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
            model(*arguments)
    finally:
        onednn.enabled = before
    return counter.get_total_flops()


def by_counting(
    arch: str, vocabulary: int, shape: tuple[int, int, int], updates: int | None
) -> dict[str, Any]:
    """FLOPs of an update and of a training, by the row's name; `updates` None: as in the paper."""
    rows = {row.name: (family, row.changes) for family in families() for row in family.rows}
    if arch not in rows:
        raise UserError(f"--arch {arch}: can't be counted; these can: {', '.join(rows)}")
    if updates is None:
        updates = PAPER_UPDATES_OF_BIG if arch.startswith("vaswani_big") else PAPER_UPDATES
    sizes = dict(zip(("sentences", "source_length", "target_length"), shape, strict=True))
    forward = forward_flops(*rows[arch], vocabulary, shape)
    update = TRAINING_PASSES * forward
    counted = {"forward_flops": forward, "flops_per_update": update, "flops": update * updates}
    return {"arch": arch, "vocabulary": vocabulary, **sizes, "updates": updates, **counted}
