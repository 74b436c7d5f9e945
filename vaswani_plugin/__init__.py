"""vaswani_plugin: "Attention Is All You Need" as a fairseq `--user-dir`.

Importing the package loads neither torch nor fairseq. Where fairseq is loaded already, as when its
commands read `--user-dir`, the package registers with it. fairseq skips a `--user-dir` that was
imported before fairseq was: such a program calls `vaswani_plugin.register()`.
"""

import sys
from importlib import import_module
from typing import Any

__version__ = "1.0.0"
"""pyproject.toml reads it here, `vaswani --version` prints it, bundles carry it."""

PUBLIC_NAMES = {
    "ARCHITECTURES": "vaswani_plugin.model.architectures",
    "BeamSearchGenerator": "vaswani_plugin.fairseq_plugin.generator",
    "Bundle": "vaswani_plugin.inference.bundle",
    "LanguageModel": "vaswani_plugin.inference.language_model",
    "MultiHeadAttention": "vaswani_plugin.modules.attention",
    "Parser": "vaswani_plugin.inference.parsing",
    "Pipeline": "vaswani_plugin.text.pipeline",
    "Summarizer": "vaswani_plugin.inference.summarization",
    "Transformer": "vaswani_plugin.modules.transformer",
    "Translator": "vaswani_plugin.inference.translator",
    "VaswaniLanguageModel": "vaswani_plugin.fairseq_plugin.models.language_models",
    "VaswaniTransformer": "vaswani_plugin.fairseq_plugin.models.transformer",
}
"""Public names and their modules. A module is imported when its name is first used."""

__all__ = ["__version__", "register", *PUBLIC_NAMES]


def register() -> None:
    """Register models, tasks and training parts with fairseq, and patch fairseq's defects.

    Further calls do nothing.

    Raises:
        ImportError: torch or fairseq is not installed.
    """
    import_module("vaswani_plugin.fairseq_plugin")


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in PUBLIC_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(import_module(PUBLIC_NAMES[name]), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC_NAMES})


if sys.modules.get("fairseq"):
    register()
