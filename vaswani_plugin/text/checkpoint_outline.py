"""What a checkpoint tells of its dictionaries and its model's sizes, read without PyTorch and
without its weights."""

import pickle
import zipfile
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vaswani_plugin.text.corpus_io import InputError


@dataclass(frozen=True)
class Outline:
    """What a checkpoint tells of its dictionaries, by side ("source", "target"), and of its model.

    Args:
        digests: sha256 of the symbols joined by line breaks; only vaswani_translation keeps it.
        rows: of the embedding matrix.
        model: the model's part of the configuration, plain values only; empty where it has none.
    """

    digests: dict[str, str]
    rows: dict[str, int]
    model: dict[str, str | int | float | bool | None] = field(default_factory=dict)


class _Anything:
    """Stands for every object in a checkpoint that is no plain data; keeps what it was made of."""

    def __init__(self, *args: Any) -> None:
        self.args = args

    def __setstate__(self, state: Any) -> None:
        """Forgets it."""


class _OutlineUnpickler(pickle.Unpickler):
    """Reads a checkpoint's structure without PyTorch, without its weights, and runs none of it."""

    def find_class(self, module: str, name: str) -> type:
        return OrderedDict if (module, name) == ("collections", "OrderedDict") else _Anything

    def persistent_load(self, pid: Any) -> None:
        """A tensor's numbers: not needed."""


def read_outline(path: Path) -> Outline:
    """Reads what a checkpoint tells of its dictionaries.

    Raises:
        InputError: the file is no checkpoint of fairseq.
        OSError: it can't be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            (name,) = (n for n in archive.namelist() if n.endswith("/data.pkl"))
            with archive.open(name) as stream:
                state = _OutlineUnpickler(stream).load()
        weights = state["model"]
        digests = (state.get("task_state") or {}).get("dictionary_sha256", {})
        if not isinstance(digests, dict):
            raise TypeError(f"the digests of its dictionaries are a {type(digests).__name__}")
        rows = {}
        for side, stack in (("source", "encoder"), ("target", "decoder")):
            for matrix in ("embedding", "embed_tokens"):  # ours, fairseq's
                if tensor := weights.get(f"{stack}.{matrix}.weight"):
                    rows[side] = tensor.args[2][0]  # _rebuild_tensor_v2(storage, offset, size, …)
        return Outline(digests, rows, _model_configuration(state.get("cfg")))
    except OSError:
        raise
    except Exception as error:  # whatever a foreign pickle leads to
        raise InputError(
            f"{path}: no checkpoint of fairseq, or not whole ({error!r}); one in the format before "
            "PyTorch 1.6 is rewritten by `vaswani average --inputs FILE --output NEW`"
        ) from error


def _model_configuration(cfg: Any) -> dict[str, str | int | float | bool | None]:
    model = cfg.get("model") if isinstance(cfg, dict) else None
    if not isinstance(model, dict):
        return {}
    plain = (str, int, float, bool, type(None))
    return {name: value for name, value in model.items() if isinstance(value, plain)}
