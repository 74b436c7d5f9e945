"""Names that numpy 2 removed, and bfloat16 on machines without XLA."""

import argparse
import importlib.util
import sys
import types
from typing import Any

import numpy as np
from fairseq import options
from fairseq.data import data_utils, language_pair_dataset, token_block_dataset

from vaswani_plugin.compat.replacing import is_defect_in_source, replace


def restore_removed_numpy_names() -> None:
    """Defect: fairseq's data modules use what numpy 2 removed (fairseq-fixed 0.12.3.1).

    ``np.compat.long`` (``--sample-break-mode eos``, ``--num-batch-buckets``) and
    ``np.percentile(interpolation=)`` (``--num-batch-buckets``). Only the ``np`` of these three
    modules changes: numpy itself stays as it is. (``np.int`` in masks for audio is left: the
    lines before it call a ``randint`` that numpy's generators never had.)
    """
    if hasattr(np, "compat"):
        return
    for module in (data_utils, language_pair_dataset, token_block_dataset):
        if module.np is np:
            module.np = _numpy_with_old_names()


def _numpy_with_old_names() -> types.ModuleType:
    """A module that answers like numpy, and knows the removed names too."""
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
    """Defect: ``--bf16`` fails with "'NoneType' object has no attribute 'xla_device'".

    fairseq-fixed 0.12.3.1 takes bfloat16 for a feature of TPUs and switches to one. CPUs and GPUs
    have it too: unless torch_xla is there, or ``--tpu`` was asked for, the run stays where it is.
    """
    if importlib.util.find_spec("torch_xla") is not None:
        return
    original = options.parse_args_and_arch
    if not is_defect_in_source(original, "if args.bf16: args.tpu = True"):
        return

    def parse_args_and_arch(
        parser: argparse.ArgumentParser,
        input_args: list[str] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        parsed = original(parser, input_args, *args, **kwargs)
        namespace = parsed[0] if isinstance(parsed, tuple) else parsed
        asked = "--tpu" in (sys.argv[1:] if input_args is None else input_args)
        if getattr(namespace, "bf16", False) and not asked:
            namespace.tpu = False
        return parsed

    replace(options, "parse_args_and_arch", parse_args_and_arch)
