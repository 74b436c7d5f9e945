"""Loads translators for every model that fairseq builds: ours, its own, and other plugins'.

torch and fairseq are imported only if a bundle needs them.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaswani_plugin.export.foreign import fairseq_needed
from vaswani_plugin.inference.bundle import Bundle, ForeignModel
from vaswani_plugin.inference.engines import dtype_of
from vaswani_plugin.inference.translator import Translator
from vaswani_plugin.text.pipeline import Pipeline

if TYPE_CHECKING:
    import torch


def load_translator(folder: str | Path, **options: Any) -> Translator:
    """`Translator.from_pretrained` that also loads models which only fairseq can build.

    Args:
        folder: the bundle.
        options: as for `Translator.from_pretrained`.

    Raises:
        ValueError: the folder is not a bundle of a translation model, or needs fairseq, which is
            missing.
        OSError: a file can't be read.
    """
    try:
        return Translator.from_pretrained(folder, **options)
    except ForeignModel as foreign:
        with fairseq_needed(foreign):
            built = _build_translator(Bundle.load(Path(folder)), **options)
            return built.loaded_by(load_translator, folder, **options)


def load_checkpoint_translator(path: Path, data: Path, codes: Path | None = None) -> Translator:
    """`Translator.from_checkpoint` that also loads models which only fairseq can build.

    Args:
        path: the checkpoint.
        data: the folder of its dictionaries.
        codes: BPE codes of subword-nmt, to split the text with; None: it is split already.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file can't be used, or the model is no translation model; names it.
    """
    if codes is not None and not codes.exists():
        raise FileNotFoundError(f"{codes} does not exist")
    try:
        return Translator.from_checkpoint(path, data, codes)
    except ForeignModel:
        import torch

        from vaswani_plugin.export.ensembles import load_foreign
        from vaswani_plugin.export.fairseq_engine import FairseqEngine

        model, task = load_foreign(path, data)
    engine = FairseqEngine(model.eval(), task, torch.device("cpu"))
    languages = task.cfg.source_lang, task.cfg.target_lang
    found = Translator(Pipeline.of_tokens(languages, codes), engine)
    return found.loaded_by(load_checkpoint_translator, path, data, codes)


def _build_translator(
    bundle: Bundle,
    device: "torch.device | str" = "cpu",
    dtype: "torch.dtype | str | None" = None,
    threads: int | None = None,
    engine: str | None = None,
) -> Translator:
    import torch

    from vaswani_plugin.export import fairseq_engine

    assert engine in (None, "torch"), "the others load no checkpoints"
    built = fairseq_engine.build_engine(bundle, torch.device(device), dtype_of(dtype), threads)
    return Translator(bundle.pipeline, built)
