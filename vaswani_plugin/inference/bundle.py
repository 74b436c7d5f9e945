"""A bundle: the folder of a model and its text pipeline, and the engine that decodes with it.

text/settings.py says what the folder holds. An engine is imported when it is chosen: this file
needs no torch, whose import takes a second, and a bundle for CTranslate2 needs none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from vaswani_plugin.errors import UserError, check_ranges, require_choice
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import (
    CTRANSLATE2_MODEL,
    ONNX_ENCODER,
    AnySettings,
    Settings,
    weights_path,
    wrong_kind,
)

if TYPE_CHECKING:
    import torch

    from vaswani_plugin.inference.attention import RawAttention
    from vaswani_plugin.inference.checkpoints import Loaded
    from vaswani_plugin.inference.runner import Hypothesis, Tokens
    from vaswani_plugin.search.options import SearchOptions


@dataclass(frozen=True)
class Bundle:
    """The folder and the functions between its raw text and its subwords."""

    folder: Path
    pipeline: Pipeline

    @classmethod
    def load(cls, folder: Path, kind: type[AnySettings] = Settings) -> "Bundle":
        """Read all but the model; `kind` is the type of settings that the bundle must have.

        Raises:
            ValueError: the folder is not a bundle of this kind, or a file in it can't be used.
        """
        pipeline = Pipeline.load(folder)
        if not isinstance(pipeline.settings, kind):
            raise wrong_kind(str(folder), type(pipeline.settings), kind)
        return cls(folder, pipeline)

    def load_model(self) -> "Loaded":
        """Load the model and its dictionaries; see `checkpoints.load_model`."""
        from vaswani_plugin.inference.checkpoints import load_model

        settings, folder = self.pipeline.settings, self.folder
        return load_model(weights_path(folder), folder, type(settings), settings.dictionaries())


class Pretrained:
    """What `from_pretrained` loads; pickled, it is this call: it is loaded again elsewhere."""

    kind: ClassVar[type[AnySettings]]
    """Of the bundle's settings."""
    of_bundle: Callable[..., Any]
    """The class method that loads such a bundle, by the options of `from_pretrained`."""
    _call: tuple[Path, dict[str, Any]] | None = None

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        *,
        device: "str | torch.device" = "cpu",
        dtype: "str | torch.dtype | None" = None,
        threads: int | None = None,
    ) -> Self:
        """Load a bundle; see `Translator.from_pretrained`."""
        return cls._loaded_by(folder, device=device, dtype=dtype, threads=threads)

    @classmethod
    def _loaded_by(cls, folder: str | Path, **options: Any) -> Self:
        check_ranges(**options)
        loaded: Self = cls.of_bundle(Bundle.load(Path(folder), cls.kind), **options)
        loaded._call = Path(folder).resolve(), options
        return loaded

    def __reduce__(self) -> tuple[Any, ...]:
        if self._call is None:
            raise UserError("only what from_pretrained loaded can be pickled")
        return partial(type(self).from_pretrained, **self._call[1]), (self._call[0],)


class Engine(Protocol):
    """Decodes batches of subwords, scores given targets, and shows attention weights."""

    longest_source: int
    """Most subwords of a source, the end of sentence not counted."""
    longest_target: int
    """Most subwords of a target, the end of sentence not counted."""

    def decode(
        self, sources: Sequence["Tokens"], options: "SearchOptions", seed: int | None = None
    ) -> "list[list[Hypothesis]]":
        """The hypotheses of each sentence, the best one first; threads may share an engine.

        A source has from 1 to `longest_source` subwords; `seed` is of samples, None: a random one.
        """

    def score(
        self, sources: Sequence["Tokens"], targets: Sequence["Tokens"]
    ) -> list[tuple[float, ...]]:
        """For each pair of subwords log P of every target token, then of the end of sentence."""

    def attention(self, source: "Tokens", target: "Tokens") -> "RawAttention":
        """The weights of every layer and head; a `UserError` where there are none to show."""


ENGINES = ("torch", "ctranslate2", "onnxruntime")
MADE_FOR = {"ctranslate2": CTRANSLATE2_MODEL, "onnxruntime": ONNX_ENCODER}
"""The file by which a bundle for this engine is known."""


def engine_of(folder: Path) -> str:
    """The engine, one of `ENGINES`, that a bundle was made for."""
    return next((name for name in MADE_FOR if (folder / MADE_FOR[name]).is_file()), "torch")


def load_engine(
    bundle: Bundle,
    name: str | None,
    device: "str | torch.device",
    dtype: "str | torch.dtype | None",
    threads: int | None,
) -> Engine:
    """Load a bundle's model into an engine; see `Translator.from_pretrained`.

    The name is one of `ENGINES`; None: the one that the bundle was made for.
    """
    precision = None if dtype is None else str(dtype).removeprefix("torch.")
    name = name or engine_of(bundle.folder)
    require_choice("engine", name, *ENGINES)
    if name in MADE_FOR and not (bundle.folder / MADE_FOR[name]).is_file():
        export = f"vaswani export --to {name.removesuffix('runtime')}"
        raise UserError(f"{bundle.folder} holds no model for {name}: make one with `{export}`")
    if name == "ctranslate2":
        from vaswani_plugin.inference.ctranslate2_engine import CTranslate2Engine

        return CTranslate2Engine(bundle.folder, str(device), precision or "default", threads or 0)
    if name == "onnxruntime":
        if not str(device).startswith("cpu") or precision is not None:
            raise UserError(
                "onnxruntime computes on the CPU in the export's own precision: give --cpu "
                "(device='cpu' in Python) and no other precision"
            )
        from vaswani_plugin.inference.onnx_engine import OnnxEngine

        return OnnxEngine(bundle.folder, bundle.pipeline.settings.dictionaries(), threads)
    from vaswani_plugin.inference.search_engine import TorchEngine

    return TorchEngine(bundle.load_model(), device, dtype, threads)
