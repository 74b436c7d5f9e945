"""vaswani_plugin: "Attention Is All You Need" as a fairseq `--user-dir`.

Importing the package loads neither torch nor fairseq, and patches nothing. fairseq's loader of
`--user-dir` imports the package, then every file of `tasks/` and `models/`; these packages call
`register`. The loader skips a package that is already imported, so a program that imports it
earlier must call `vaswani_plugin.register()` itself.
"""

from importlib import import_module
from typing import Any

PUBLIC_NAMES = {
    "ARCHITECTURES": "vaswani_plugin.architectures",
    "BeamSearchGenerator": "vaswani_plugin.search.generator",
    "Bundle": "vaswani_plugin.inference.bundle",
    "LanguageModel": "vaswani_plugin.inference.language_model",
    "MultiHeadAttention": "vaswani_plugin.modules.attention",
    "Parser": "vaswani_plugin.inference.parsing",
    "Pipeline": "vaswani_plugin.text.pipeline",
    "Summarizer": "vaswani_plugin.inference.summarization",
    "Transformer": "vaswani_plugin.modules.transformer",
    "Translator": "vaswani_plugin.inference.translator",
    "VaswaniLanguageModel": "vaswani_plugin.models.language_model",
    "VaswaniTransformer": "vaswani_plugin.models.transformer",
}
"""Public names and their modules. A module is imported when its name is first used."""

__all__ = ["register", *PUBLIC_NAMES]

_is_registered = False


def register() -> None:
    """Register models, tasks and training parts with fairseq, and patch fairseq's defects.

    Further calls do nothing.

    Raises:
        ImportError: torch or fairseq is not installed.
    """
    global _is_registered
    if _is_registered:
        return
    _is_registered = True  # first: the packages imported below call this function
    try:
        from vaswani_plugin import defaults, fairseq_patches

        fairseq_patches.apply()
        from vaswani_plugin import training
        from vaswani_plugin.criterions import label_smoothing
        from vaswani_plugin.models import (
            attention_lstm,
            language_model,
            lstm_language_model,
            one_layer_language_model,
            seq2seq_lstm,
            transformer,
        )
        from vaswani_plugin.optim import adam, halving, lr_scheduler
        from vaswani_plugin.tasks import language_modeling, parsing, translation

        defaults.install()
        training.install()
    except BaseException:
        _is_registered = False
        raise


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in PUBLIC_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(import_module(PUBLIC_NAMES[name]), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC_NAMES})
