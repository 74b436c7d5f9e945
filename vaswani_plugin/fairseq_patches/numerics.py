"""Names that numpy 2 removed, and bfloat16 on machines without XLA."""

import argparse
import importlib.util
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from fairseq import options
from fairseq.data import data_utils, language_pair_dataset, token_block_dataset

from vaswani_plugin.fairseq_patches._patching import is_affected_version, patch


def restore_removed_numpy_names() -> None:
    """``--sample-break-mode eos`` and ``--num-batch-buckets`` fail with an AttributeError.

    They use ``np.compat.long`` and ``np.percentile(interpolation=)``, which numpy 2 removed. The
    patch changes the name ``np`` in three modules of fairseq; numpy itself is not changed.
    (``np.int`` in masks for audio is not patched: the lines before it call a ``randint`` that
    numpy's generators never had.)

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1, with numpy 2.
    """
    if hasattr(np, "compat"):
        return
    for module in (data_utils, language_pair_dataset, token_block_dataset):
        if module.np is np:
            module.np = _numpy_with_old_names()


def _numpy_with_old_names() -> types.ModuleType:
    """A module with numpy's names and the removed names."""
    old = types.ModuleType("numpy")
    old.__dict__.update(vars(np))
    old.__getattr__ = lambda name: getattr(np, name)
    old.compat = types.SimpleNamespace(long=int)

    def percentile(*args: Any, interpolation: str | None = None, **kwargs: Any) -> Any:
        if interpolation is not None:
            kwargs["method"] = interpolation
        return np.percentile(*args, **kwargs)

    old.percentile = percentile
    return old


def train_in_bf16_without_xla() -> None:
    """``--bf16`` fails with "'NoneType' object has no attribute 'xla_device'".

    fairseq assumes that only TPUs have bfloat16, and switches to a TPU. CPUs and GPUs have it, too.
    Now the run stays on its device unless torch_xla is installed or ``--tpu`` is given.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    if importlib.util.find_spec("torch_xla") is not None or not is_affected_version():
        return

    @patch(options, "parse_args_and_arch")
    def parse_args_and_arch(
        original: Callable,
        parser: argparse.ArgumentParser,
        input_args: list[str] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        parsed = original(parser, input_args, *args, **kwargs)
        namespace = parsed[0] if isinstance(parsed, tuple) else parsed
        is_wanted = "--tpu" in (sys.argv[1:] if input_args is None else input_args)
        if getattr(namespace, "bf16", False) and not is_wanted:
            namespace.tpu = False
        return parsed
