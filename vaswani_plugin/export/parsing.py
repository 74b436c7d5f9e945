"""Loads parsers of every kind; imports fairseq only if a model needs it."""

from pathlib import Path
from typing import Any

import torch

from vaswani_plugin.export.foreign import fairseq_needed
from vaswani_plugin.inference.bundle import Bundle, ForeignModel
from vaswani_plugin.inference.engines import dtype_of
from vaswani_plugin.inference.parsing import Parser
from vaswani_plugin.text.settings import TreeSettings


def load_parser(folder: str | Path, **options: Any) -> Parser:
    """`Parser.from_pretrained` that also loads models which only fairseq can build.

    Args:
        folder: a bundle of recipes/parsing.sh.
        options: as for `Parser.from_pretrained`.

    Raises:
        ValueError: the folder is no parser's bundle, can't be used, or needs fairseq, which is
            missing.
        OSError: a file can't be read.
    """
    try:
        return Parser.from_pretrained(folder, **options)
    except ForeignModel as foreign:
        with fairseq_needed(foreign):
            return _build_parser(Bundle.load(Path(folder), TreeSettings), **options)


def _build_parser(
    bundle: Bundle,
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype | None = None,
    threads: int | None = None,
) -> Parser:
    from vaswani_plugin.export.bundle import FairseqBundle

    model, task = FairseqBundle(bundle.folder, bundle.pipeline).load_model()
    model = model.to(device=device, dtype=dtype_of(dtype))
    model.make_generation_fast_(beamable_mm_beam_size=None, need_attn=False)
    dictionaries = task.source_dictionary, task.target_dictionary
    return Parser(model, *dictionaries, bundle.pipeline, threads)
