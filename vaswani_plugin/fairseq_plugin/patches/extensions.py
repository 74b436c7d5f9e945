"""Where fairseq has no compiled extensions: those in `batching.py`, and `fairseq.libbleu` here."""

import sys
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import Any

import fairseq.data
from fairseq.scoring.bleu import BleuConfig, BleuStat, Scorer
from torch import IntTensor

from vaswani_plugin.fairseq_plugin.patches import batching
from vaswani_plugin.fairseq_plugin.patches._patching import patch


def provide_missing_extensions() -> None:
    """Batching fails with "Please build Cython components" where no compiler was.

    fairseq imports the two modules when it makes its first batches. Compiled ones stay in use.
    """
    for name in ("data_utils_fast", "token_block_utils_fast"):
        if not _has_extension(f"fairseq.data.{name}"):
            sys.modules[f"fairseq.data.{name}"] = batching
            setattr(fairseq.data, name, batching)


def count_ngrams_without_libbleu() -> None:
    """``fairseq-generate`` fails with "missing libbleu.so" where no compiler was."""
    if _has_extension("fairseq.libbleu"):
        return

    @patch(Scorer, "__init__")
    def __init__(original: Callable, self: Scorer, cfg: BleuConfig) -> None:
        self.pad, self.eos, self.unk = cfg.pad, cfg.eos, cfg.unk
        self.reset()

    @patch(Scorer, "reset")
    def reset(original: Callable, self: Scorer, one_init: bool = False) -> None:
        self.stat = BleuStat(*[0, 0, 0, 0, 1, 1, 1, 1, 1, 1] if one_init else [])

    @patch(Scorer, "add")
    def add(original: Callable, self: Scorer, ref: IntTensor, pred: IntTensor) -> None:
        unknown = {self.unk: -999}  # an unknown word of the reference matches nothing
        reference = [unknown.get(token, token) for token in _trimmed(ref, self.pad, self.eos)]
        predicted = _trimmed(pred, self.pad, self.eos)
        self.stat.reflen += len(reference)
        self.stat.predlen += len(predicted)
        for n in range(1, 5):
            written, wanted = _ngrams(predicted, n), _ngrams(reference, n)
            for name, counts in (("count", written), ("match", written & wanted)):
                setattr(self.stat, f"{name}{n}", getattr(self.stat, f"{name}{n}") + counts.total())


def _trimmed(sentence: IntTensor, pad: int, eos: int) -> list[int]:
    """Return a sentence without padding, and without the EOS at its end; one token stays."""
    tokens = sentence.flatten().tolist()
    while tokens and tokens[0] == pad:
        del tokens[0]
    while len(tokens) > 1 and tokens[-1] in (pad, eos):
        tokens.pop()
    return tokens


def _ngrams(tokens: list[int], n: int) -> Counter[Any]:
    return Counter(zip(*(tokens[start:] for start in range(n)), strict=False))


def _has_extension(name: str) -> bool:
    try:
        import_module(name)
    except (ImportError, ValueError):  # ValueError: built for another numpy
        return False
    return True
