"""Models that only fairseq builds: their translators, and ensembles that score given targets.

torch and fairseq are imported only if a model needs them.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.bundle import Bundle, ForeignModel
from vaswani_plugin.inference.engine import dtype_of
from vaswani_plugin.inference.translator import Translator
from vaswani_plugin.text.pipeline import Pipeline

if TYPE_CHECKING:
    import torch

    from vaswani_plugin.inference.forced import ForcedScorer


@contextmanager
def unchanged_log_level() -> Iterator[None]:
    """Keep the root logger's level: importing fairseq sets it to DEBUG for every library."""
    root = logging.getLogger()
    level = root.level
    try:
        yield
    finally:
        root.setLevel(level)


@contextmanager
def fairseq_needed(foreign: ForeignModel) -> Iterator[None]:
    """Context in which fairseq is imported for a model; the level of the log is kept.

    Args:
        foreign: an error whose message says which model needs fairseq.

    Raises:
        ForeignModel: fairseq can't be imported.
    """
    try:
        with unchanged_log_level():
            yield
    except ModuleNotFoundError as error:
        raise ForeignModel(f"{foreign}, and fairseq can't be imported ({error})") from error


def load_scorer(paths: list[Path], data: Path, device: "torch.device") -> "ForcedScorer":
    """Load a model, or an ensemble of models with the same dictionaries.

    Args:
        paths: checkpoints.
        data: the folder of the dictionaries.
        device: where to compute.

    Returns:
        A scorer of given targets.

    Raises:
        ValueError: a checkpoint has no encoder-decoder, or was trained with other dictionaries.
        OSError: a file is missing or can't be read.
    """
    from vaswani_plugin.inference.checkpoint_models import load_with_data
    from vaswani_plugin.inference.forced import ForcedModel, ForcedScorer, ForcedTransformer

    models: list[ForcedModel] = []
    source = target = None
    for path in paths:
        try:
            loaded, _ = load_with_data(path, data)
            source, target = loaded.source, loaded.target
            models.append(ForcedTransformer(loaded.model.to(device)))
        except ForeignModel:
            model, task = load_foreign(path, data)
            from vaswani_plugin.export.fairseq_engine import ForcedFairseqModel

            source, target = task.source_dictionary, task.target_dictionary
            models.append(ForcedFairseqModel(model.eval().to(device), source.pad()))
    return ForcedScorer(models, source, target, device)


def load_foreign(path: Path, data: Path) -> tuple[Any, Any]:
    """Load an encoder-decoder that fairseq builds, and its task.

    Args:
        path: the checkpoint.
        data: the folder of its dictionaries.

    Raises:
        ValueError: the checkpoint can't be used, or holds another kind of model; names it.
        OSError: it can't be read.
    """
    with unchanged_log_level():
        from vaswani_plugin.export.fairseq_engine import load_with_data

        model, task = load_with_data(path, data)
    if not hasattr(model, "encoder"):
        raise UserError(
            f"{path}: a {type(model).__name__} translates nothing; give a translation model"
        )
    return model, task


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
