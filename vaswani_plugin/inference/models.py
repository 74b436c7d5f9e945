"""Checkpoints in, models of `modules` out: from a bundle, or with the data of their training.

A checkpoint may come from anyone: sizes are compared with the weights before memory is taken, and
every error is one of the file.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vaswani_plugin.errors import CheckpointError, UserError
from vaswani_plugin.inference.bundle import (
    KINDS,
    PARSING_TASK,
    TASK,
    TRANSFORMER,
    Bundle,
    ForeignModel,
)
from vaswani_plugin.inference.checkpoints import Checkpoint, load_checkpoint, untrusted
from vaswani_plugin.model.acceleration import accelerated
from vaswani_plugin.model.architectures import names_of
from vaswani_plugin.model.build import build
from vaswani_plugin.model.configuration import (
    CONFIGURATIONS,
    Configuration,
    RecurrentConfiguration,
)
from vaswani_plugin.modules.transformer import EncoderDecoder
from vaswani_plugin.text.dictionary import (
    Dictionary,
    dictionary_name,
    languages_of,
)
from vaswani_plugin.text.settings import (
    TreeSettings,
    weights_path,
)

if TYPE_CHECKING:
    from vaswani_plugin.modules.recurrent import RecurrentEncoderDecoder

Model = TypeVar("Model", bound=nn.Module)

DIGESTS = "dictionary_sha256"
"""Where a task's part of a checkpoint has the digests of its dictionaries, by side."""
RECURRENT = {n: c for n, c in CONFIGURATIONS.items() if issubclass(c, RecurrentConfiguration)}
TASKS_OF_PAIRS = (TASK, "translation")


class Loaded(NamedTuple):
    """A Transformer in evaluation mode, on the CPU, its configuration and its dictionaries."""

    model: EncoderDecoder
    sizes: Configuration
    source: Dictionary
    target: Dictionary


class LoadedRecurrent(NamedTuple):
    """The same of a recurrent model."""

    model: "RecurrentEncoderDecoder"
    sizes: RecurrentConfiguration
    source: Dictionary
    target: Dictionary

    @property
    def longest(self) -> tuple[int, int]:
        """Source and target in tokens, the ends of sentence included."""
        return self.sizes.max_source_positions, self.sizes.max_target_positions


def load_from_bundle(bundle: Bundle) -> Loaded | LoadedRecurrent:
    """Load a translation model or a parser, and its dictionaries.

    Raises:
        ForeignModel: only fairseq builds this model.
        ValueError: the checkpoint can't be used, or was trained with other dictionaries.
        OSError: a file can't be read.
    """
    path, kind = weights_path(bundle.folder), type(bundle.pipeline.settings)
    with untrusted(path):
        state = load_checkpoint(path)
        name = configuration_of(path, state)["task"].get("_name")
        if name not in ((PARSING_TASK,) if kind is TreeSettings else TASKS_OF_PAIRS):
            raise UserError(
                f"{path} was trained by --task {name}: this bundle needs {KINDS[kind][0]}"
            )
        return _encoder_decoder(path, state, bundle.folder, bundle.languages)


def load_with_data(path: Path, data: Path) -> tuple[Loaded | LoadedRecurrent, tuple[str, str]]:
    """Load a checkpoint's translation model and its dictionaries, and its two languages.

    Args:
        path: the checkpoint.
        data: folder of the dictionaries.

    Raises:
        ForeignModel: only fairseq builds this model, or it belongs to another task.
        FileNotFoundError: the file or the folder is missing.
        ValueError: the checkpoint can't be used, or was trained with other dictionaries.
    """
    for needed in (path, data):
        if not needed.exists():
            raise FileNotFoundError(f"{needed} does not exist")
    with untrusted(path):
        state = load_checkpoint(path)
        task = configuration_of(path, state)["task"]
        if task.get("_name") not in TASKS_OF_PAIRS:
            raise ForeignModel(f"{path} has the task {task.get('_name')!r}")
        source, target = task.get("source_lang"), task.get("target_lang")
        # Without --source-lang, fairseq-train finds them by the names of the files.
        languages = (source, target) if source and target else languages_of(data)
        if languages is None:
            raise UserError(f"neither {path} nor the names in {data} say one pair of languages")
        return _encoder_decoder(path, state, data, languages), languages


def _encoder_decoder(
    path: Path, state: Checkpoint, folder: Path, languages: tuple[str, str]
) -> Loaded | LoadedRecurrent:
    family = family_of(path, state, (TRANSFORMER, *RECURRENT))
    source, target = _load_dictionaries(state, folder, languages)
    options, weights = (state["cfg"]["model"], state["cfg"]["task"]), state["model"]
    if family == TRANSFORMER:
        sizes = Configuration.from_checkpoint(*options)
        model = make_transformer(sizes, source, target, weights, path)
        return Loaded(model, sizes, source, target)
    from vaswani_plugin.model.ancestors import build_recurrent  # translating mostly needs none

    recurrent = RECURRENT[family].from_checkpoint(*options)
    lstm = with_weights(lambda: build_recurrent(recurrent, source, target), weights, path)
    return LoadedRecurrent(lstm, recurrent, source, target)


def configuration_of(path: Path, state: Checkpoint) -> Mapping[str, Any]:
    """A checkpoint's configuration, with the sections "model" and "task".

    Raises:
        ForeignModel: it has none.
    """
    cfg = state.get("cfg")
    if isinstance(cfg, Mapping):
        if all(isinstance(cfg.get(part), Mapping) for part in ("model", "task")):
            return cfg
    raise ForeignModel(f"{path} holds flags of a model")  # that was registered without a dataclass


def family_of(path: Path, state: Checkpoint, families: tuple[str, ...]) -> str:
    """The one of some families that a checkpoint's model belongs to.

    Raises:
        ForeignModel: it belongs to none of them.
    """
    name = state["cfg"]["model"].get("_name")
    found = next((family for family in families if name in names_of(family)), None)
    if found is None:
        raise ForeignModel(f"{path} holds {name!r}")
    return found


def _load_dictionaries(
    state: Checkpoint, folder: Path, languages: tuple[str, str]
) -> tuple[Dictionary, Dictionary]:
    source, target = (Dictionary.load(folder / dictionary_name(side)) for side in languages)
    digests = {"source": source.digest(), "target": target.digest()}
    refuse_other_dictionaries(folder, state.get("task_state") or {}, digests)
    return source, target


def make_transformer(
    sizes: Configuration,
    source: Dictionary,
    target: Dictionary,
    weights: Mapping[str, Tensor],
    path: Path,
) -> EncoderDecoder:
    """Build a model with a checkpoint's weights, in evaluation mode; `path` is for messages.

    Raises:
        ValueError: sizes, dictionaries and weights don't fit together.
    """
    require_layers(path, weights, encoder=sizes.encoder_layers, decoder=sizes.decoder_layers)
    words = None
    if sizes.next_word:
        from vaswani_plugin.search.well_formed import Grammar  # translations have none
        from vaswani_plugin.text.linearization import JOINT, MAX_OPENINGS

        grammar = Grammar(source, target, JOINT, MAX_OPENINGS)
        words = grammar.ends_word, grammar.is_word
    return with_weights(lambda: build(sizes, source, target, words), weights, path)


def require_layers(path: Path, weights: Mapping[str, Tensor], **layers: int) -> None:
    """Refuse a checkpoint without weights of its last layer; a file may state any number."""
    for side, count in layers.items():
        if count > 0 and not any(k.startswith(f"{side}.layers.{count - 1}.") for k in weights):
            raise UserError(
                f"{path} should hold {count} layers of the {side} and holds fewer: copy it again, "
                f"or use another one"
            )


def with_weights(make: Callable[[], Model], weights: Mapping[str, Tensor], path: Path) -> Model:
    """Build a model with a checkpoint's weights, in evaluation mode; `path` is for messages.

    A few bytes may claim any sizes: they are compared with the weights' own before memory is taken.
    No initial weights are drawn: they would be overwritten, and on the device "meta" drawing
    imports PyTorch's compiler, a second.

    Raises:
        CheckpointError: sizes and weights don't fit together.
    """
    with mismatches_explained(str(path)), WithoutInitialWeights():
        with torch.device("meta"):
            make().load_state_dict(weights, assign=True)
        model = make()
        model.load_state_dict(weights)
    return accelerated(model).eval()


class WithoutInitialWeights(TorchFunctionMode):
    """In its block the functions of `torch.nn.init` leave tensors as they are."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """See `TorchFunctionMode`; the tensor is the first argument, or named."""
        given = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else given["tensor"]
        return func(*args, **given)


def refuse_other_dictionaries(
    folder: str | Path, task_state: Mapping[str, Any], digests: Mapping[str, str]
) -> None:
    """Refuse dictionaries that differ from those of the training, even if their sizes agree.

    `task_state` is the task's part of the checkpoint, `digests` are by side: "source" or "target".

    Raises:
        UserError: a dictionary has other words, or the same words in another order.
    """
    trained_with = task_state.get(DIGESTS) or {}
    for side, digest in digests.items():
        if trained_with.get(side, digest) != digest:
            raise UserError(
                f"the {side} dictionary of {folder} is not the one that the checkpoint was trained "
                f"with; give the data folder (its dict.*.txt) it was trained on"
            )


@contextmanager
def mismatches_explained(files: str) -> Iterator[None]:
    """Turn PyTorch's error about weights that don't fit into one line with the files' names.

    Raises:
        CheckpointError: the weights don't fit the model. Other errors pass unchanged.
    """
    try:
        yield
    except Exception as error:
        # fairseq's Trainer raises a bare Exception while it handles PyTorch's RuntimeError
        cause: BaseException | None = error
        while cause is not None and "Error(s) in loading state_dict" not in str(cause):
            cause = cause.__context__
        if cause is None:
            raise
        first = str(cause).partition("\n")[2].strip().partition("\n")[0][:300]
        raise CheckpointError(
            f"checkpoint {files} does not fit this model ({first}): give the data folder (its "
            "dict.*.txt), the --arch and the sizes that it was trained with, or another --save-dir"
        ) from error
