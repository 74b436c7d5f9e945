"""Models of which only the sizes are known: without dictionaries, and without memory.

Axes: V vocabulary.
"""

from collections.abc import Mapping
from typing import Any

import torch

from vaswani_plugin.model.build import WithoutInitialWeights
from vaswani_plugin.model.families import Family


class Rows(int):
    """The size of a dictionary, in place of the dictionary."""

    def __len__(self) -> int:
        return self

    def pad(self) -> int:
        """fairseq's number of the padding symbol."""
        return 1

    def eos(self) -> int:
        """fairseq's number of the end of sentence."""
        return 2


def build_sizes(family: Family, cfg: Any, words: tuple[int, int]) -> Any:
    """Build a model of which only the sizes of its dictionaries are known.

    `words` are the rows of the source's and the target's embedding. Equal ones are one dictionary.
    """
    options = {}
    if getattr(cfg, "next_word", False):
        options["words"] = tuple(torch.zeros(rows, dtype=torch.bool) for rows in words)
    return family.build(cfg, *map(Rows, words), **options)


def count_parameters(family: Family, changes: Mapping[str, Any], words: tuple[int, int]) -> int:
    """Count the parameters of a model; a shared matrix counts once. No memory is allocated.

    `changes` are the values of its configuration that are not the defaults; see `build_sizes`.
    """
    with torch.device("meta"), WithoutInitialWeights():
        built = build_sizes(family, family.configuration(**changes), words)
    return sum(parameter.numel() for parameter in built.parameters())
