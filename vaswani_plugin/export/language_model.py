"""Loads language models and summarizers of every kind; imports fairseq only if a model needs it."""

from pathlib import Path
from typing import Any

from vaswani_plugin.export.foreign import fairseq_needed
from vaswani_plugin.inference.bundle import ForeignModel
from vaswani_plugin.inference.language_model import LanguageModel


def load_language_model(path: str | Path, **options: Any) -> LanguageModel:
    """`LanguageModel.from_pretrained` that also loads models which only fairseq can build.

    Args:
        path: a bundle, or a checkpoint.
        options: as for `LanguageModel.from_pretrained`.

    Raises:
        ValueError: the model is no language model, can't be used, or needs fairseq, which is
            missing.
        OSError: a file can't be read.
    """
    try:
        return LanguageModel.from_pretrained(path, **options)
    except ForeignModel as foreign:
        with fairseq_needed(foreign):
            from vaswani_plugin.export.fairseq_language_model import build_language_model

            return build_language_model(path, **options)
