"""One training of recipes/section5.sh, and how many batches an epoch of it has."""

import argparse
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from trainings import require_languages

from vaswani_plugin.text.binary import read_sizes

ORDERS = ("fairseq", "longer-side")
"""Values of --batch-order, the default first."""


@dataclass(frozen=True)
class Training:
    """One training: what it changes.

    Args:
        name: of its folder.
        updates: their number.
        warmup: updates over which the rate grows.
        factor: of the learning rate, Eq. 3.
        smoothing: of the labels.
        seed: of initial weights, dropout and batches.
        order: of the pairs from which batches are cut, a value of --batch-order.
    """

    name: str
    updates: int
    warmup: int
    factor: float
    smoothing: float
    seed: int
    order: str = ORDERS[0]

    def flags(self, args: argparse.Namespace) -> list[str]:
        """The flags of `fairseq-train`, without those for data, folders and devices."""
        flags = ["--arch", args.arch, "--max-tokens", str(args.max_tokens)]
        flags += ["--warmup-updates", str(self.warmup), "--lr-factor", f"{self.factor:g}"]
        flags += ["--label-smoothing", f"{self.smoothing:g}", "--seed", str(self.seed)]
        if self.order != ORDERS[0]:
            flags += ["--batch-order", self.order]
        return [*flags, "--max-update", str(self.updates)]


@cache
def batches(data_bin: Path, order: str, max_tokens: int) -> int:
    """Counts the batches of an epoch.

    Args:
        data_bin: the binarized data.
        order: a value of --batch-order.
        max_tokens: of the longer side of a batch, padding included.

    Raises:
        UserError: the folder has no training set.
    """
    languages = require_languages(data_bin)
    names = [data_bin / f"train.{'-'.join(languages)}.{language}" for language in languages]
    pairs = list(zip(*(read_sizes(name).tolist() for name in names), strict=True))
    if order == "fairseq":
        pairs.sort()
    else:  # by the longer side, then by the other one, up and down in turn
        pairs.sort(key=lambda pair: (max(pair), (pair[0] - pair[1]) * (-1) ** max(pair)))
    count, begun = 1, []
    for pair in pairs:
        begun.append(max(pair))
        if len(begun) * max(begun) > max_tokens:
            size = len(begun) - 1  # a multiple of 8 where it can be
            count, begun = count + 1, begun[size // 8 * 8 or size :]
    return count + (len(begun) > 8 and len(begun) % 8 > 0)
