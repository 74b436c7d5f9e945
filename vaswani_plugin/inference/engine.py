"""The interface of engines, which decode batches of subwords for a `Translator`, and their choice.

An engine is imported when it is chosen: torch takes a second to import, and CTranslate2's engine
needs none.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.bundle import Bundle
from vaswani_plugin.inference.texts import Hypothesis, Tokens
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.text.lines import read_json
from vaswani_plugin.text.settings import CTRANSLATE2_MODEL, ONNX_ENCODER

if TYPE_CHECKING:
    import torch

    from vaswani_plugin.inference.attention import RawAttention


class Engine(Protocol):
    """Decodes batches of subwords, scores given targets, and shows attention weights."""

    longest_source: int
    """Most subwords of a source, the end of sentence not counted."""
    longest_target: int
    """Most subwords of a target, the end of sentence not counted."""

    def decode(
        self, sources: Sequence[Tokens], options: SearchOptions, seed: int | None = None
    ) -> list[list[Hypothesis]]:
        """Decode a batch. Threads may call it at the same time.

        Args:
            sources: subwords of each sentence, at least one, at most `longest_source`.
            options: of the search.
            seed: of samples; None: a random seed.

        Returns:
            The hypotheses of each sentence, the best one first.

        Raises:
            UserError: options that the engine doesn't know.
        """

    def score(
        self, sources: Sequence[Tokens], targets: Sequence[Tokens]
    ) -> list[tuple[float, ...]]:
        """Score a batch of pairs.

        Args:
            sources: subwords of each source.
            targets: subwords of each target.

        Returns:
            For each pair log P of every target token, then of the end of sentence.
        """

    def attention(self, source: Tokens, target: Tokens) -> "RawAttention":
        """The weights of every layer and head.

        Raises:
            UserError: the model has none that can be shown.
        """


ENGINES = ("torch", "ctranslate2", "onnxruntime")
MADE_FOR = {CTRANSLATE2_MODEL: "ctranslate2", ONNX_ENCODER: "onnxruntime"}
"""The engine of a bundle that holds this file."""


def dtype_of(dtype: "str | torch.dtype | None") -> "torch.dtype | None":
    """PyTorch's type of a name.

    Args:
        dtype: such as "bfloat16" or "torch.bfloat16"; a type, and None, is returned as it is.

    Raises:
        UserError: there is no such type, or weights can't have it.
    """
    import torch

    if dtype is None:
        return None
    name = str(dtype).removeprefix("torch.")
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise UserError(f"dtype is {name!r}, which is no type of weights: give float16")
    return found


def engine_of(folder: Path) -> str:
    """The engine, one of `ENGINES`, that a bundle was made for."""
    return next((MADE_FOR[name] for name in MADE_FOR if (folder / name).is_file()), "torch")


def load_engine(
    bundle: Bundle,
    name: str | None,
    device: "str | torch.device",
    dtype: "str | torch.dtype | None",
    threads: int | None,
) -> Engine:
    """Load a bundle's model into an engine; see `Translator.from_pretrained`.

    Args:
        bundle: of a translation model.
        name: one of `ENGINES`; None: the one that the bundle was made for.
        device: where to decode, such as "cpu" or "cuda".
        dtype: of the weights, such as "float16"; None: as they are stored.
        threads: of the CPU; None: the engine's choice.

    Raises:
        ForeignModel: only fairseq builds the model; names the commands that read it.
        ValueError: no engine of that name, or one that can't load the bundle.
        OSError: a file can't be read.
    """
    if name not in (None, *ENGINES):
        raise UserError(f"engine is {name!r}; it must be one of {', '.join(ENGINES)}")
    precision = None if dtype is None else str(dtype).removeprefix("torch.")
    name = name or engine_of(bundle.folder)
    if name == "ctranslate2":
        from vaswani_plugin.inference.ctranslate2_engine import CTranslate2Engine

        return CTranslate2Engine(bundle.folder, str(device), precision or "default", threads or 0)
    if name == "onnxruntime":
        if not str(device).startswith("cpu") or precision is not None:
            raise UserError(
                "onnxruntime computes on the CPU, in the export's own precision: give --cpu "
                "(device='cpu' in Python) and no other precision"
            )
        from vaswani_plugin.inference.onnx_engine import OnnxEngine

        return OnnxEngine(bundle, threads)
    import torch

    from vaswani_plugin.inference.search_engine import TorchEngine

    return TorchEngine(bundle.load_model(), torch.device(device), dtype_of(precision), threads)


def made_by(program: str) -> str:
    """What to do where an export is missing or incomplete."""
    return f"make one of a bundle with `vaswani export --to {program}`"


def read_export(path: Path, kinds: Mapping[str, type], program: str) -> dict[str, Any]:
    """Read the config.json of a folder that `vaswani export` wrote.

    Args:
        path: of the file.
        kinds: of values by key, such as "vaswani.max_source_positions"; numbers are positive.
        program: as `--to` names it.

    Raises:
        UserError: it is missing, or another file; names it.
        OSError: it can't be read.
    """
    remedy = made_by(program)
    if not path.is_file():
        raise UserError(f"{path.parent} holds no model for {program}: {remedy}")
    config: Any = read_json(path, "export the model again")
    for name, kind in kinds.items():
        value: Any = config
        for key in name.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if type(value) is not kind or (kind is int and value not in range(1, 1 << 31)):
            raise UserError(f"{path}: no export for {program} ({name}: {value!r}): {remedy}")
    return dict(config)
