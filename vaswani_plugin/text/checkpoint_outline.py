"""Reads what a checkpoint says of its dictionaries, model and training: needs no PyTorch, loads no
weights."""

import pickle
import zipfile
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vaswani_plugin.errors import UserError


@dataclass(frozen=True)
class Outline:
    """The dictionaries of a checkpoint, by side ("source", "target"), its model and its training.

    Args:
        digests: by side, sha256 of the symbols joined by line breaks. Only the task
            vaswani_translation stores it.
        rows: by side, the number of rows of the embedding matrix.
        model: the model's part of the configuration, plain values only; empty if there is none.
        seconds: training time up to the checkpoint, all parts of a resumed training together; None
            if it is not stored.
    """

    digests: dict[str, str]
    rows: dict[str, int]
    model: dict[str, str | int | float | bool | None] = field(default_factory=dict)
    seconds: float | None = None


class _Anything:
    """Replaces every object of a checkpoint that is no plain data; keeps its arguments."""

    def __init__(self, *args: Any) -> None:
        self.args = args

    def __setstate__(self, state: Any) -> None:
        """Ignores the state."""


class _OutlineUnpickler(pickle.Unpickler):
    """Reads a checkpoint's structure without PyTorch and without weights; runs none of its code."""

    def find_class(self, module: str, name: str) -> type:
        return OrderedDict if (module, name) == ("collections", "OrderedDict") else _Anything

    def persistent_load(self, pid: Any) -> None:
        """Returns nothing for a tensor's storage: the weights are not needed."""


def read_outline(path: Path) -> Outline:
    """Reads the outline of a checkpoint.

    Args:
        path: a checkpoint of fairseq.

    Raises:
        UserError: the file is no checkpoint of fairseq.
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
        seconds = (state.get("extra_state") or {}).get("previous_training_time")
        return Outline(digests, rows, _model_configuration(state.get("cfg")), seconds)
    except OSError:
        raise
    except Exception as error:  # a foreign pickle can raise anything
        raise UserError(
            f"{path}: not a complete checkpoint of fairseq ({error!r}); one in the format before "
            "PyTorch 1.6 is rewritten by `vaswani average --inputs FILE --output NEW`"
        ) from error


def _model_configuration(cfg: Any) -> dict[str, str | int | float | bool | None]:
    model = cfg.get("model") if isinstance(cfg, dict) else None
    if not isinstance(model, dict):
        return {}
    plain = (str, int, float, bool, type(None))
    return {name: value for name, value in model.items() if isinstance(value, plain)}
