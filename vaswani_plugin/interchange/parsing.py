"""Parsers that fairseq builds; `inference.parsing` loads the Transformer of ours without it."""

from pathlib import Path

import torch

from vaswani_plugin.inference.parsing import Parser
from vaswani_plugin.interchange.bundle import FairseqBundle
from vaswani_plugin.text.settings import TreeSettings


def load_parser(
    folder: str | Path,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = None,
) -> Parser:
    """Load any parser.

    Args:
        folder: a bundle of recipes/parsing.sh.
        device: where to decode.
        dtype: of the weights; None: as they are stored.

    Raises:
        ValueError: it is no parser's bundle, or can't be used; names the file.
        OSError: a file can't be read.
    """
    bundle = FairseqBundle.load(Path(folder), TreeSettings)
    model, task = bundle.load_model()
    model = model.to(device=device, dtype=dtype)
    model.make_generation_fast_(beamable_mm_beam_size=None, need_attn=False)
    return Parser(model, task.source_dictionary, task.target_dictionary, bundle.pipeline)
