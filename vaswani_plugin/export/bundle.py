"""Models that fairseq builds, with their tasks: from a bundle or from a checkpoint.

`inference.bundle` loads a Transformer of ours without fairseq.
"""

from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils, tasks
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from fairseq.tasks.translation import TranslationTask
from omegaconf import OmegaConf, open_dict

from vaswani_plugin import register
from vaswani_plugin.export.stock_fairseq import checkpoint_of
from vaswani_plugin.inference.bundle import Bundle
from vaswani_plugin.inference.checkpoints import load_checkpoint
from vaswani_plugin.inference.safetensors_file import updates_of
from vaswani_plugin.inference.untrusted import untrusted
from vaswani_plugin.text.settings import CONFIG, MODEL, weights_path


class FairseqBundle(Bundle):
    """A bundle whose model fairseq builds, of any encoder-decoder architecture."""

    def load_model(self) -> tuple[BaseFairseqModel, TranslationTask]:
        """The model on the CPU, and the task that decodes with it as the paper does.

        The task is ours, also for a model that fairseq's own translation task trained.

        Raises:
            ValueError: the checkpoint can't be used, or was trained with other dictionaries.
            OSError: the checkpoint can't be read.
        """
        register()
        with untrusted(weights_path(self.folder)):
            return self._load_model()

    def _load_model(self) -> tuple[BaseFairseqModel, TranslationTask]:
        path = weights_path(self.folder)
        state = load_state(path)
        task_cfg = state["cfg"].task
        self.require_task(task_cfg._name)
        with open_dict(task_cfg):
            task_cfg._name = self.tasks[0]
            task_cfg.data = str(self.folder)
            task_cfg.source_lang, task_cfg.target_lang = self.languages
            task_cfg.length_penalty = "paper"
            task_cfg.eval_bleu = False
        task = tasks.setup_task(task_cfg, from_checkpoint=True)
        (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task(
            [str(path)], task=task, state=state
        )
        return model.eval(), task


def load_state(path: Path) -> dict[str, Any]:
    """Load a checkpoint as fairseq does; a `.safetensors` file is converted to one.

    Args:
        path: a checkpoint of fairseq's, or a bundle's `.safetensors` file.

    Raises:
        ValueError: the file can't be used.
        OSError: it can't be read.
    """
    if path.suffix != ".safetensors":
        return checkpoint_utils.load_checkpoint_to_cpu(str(path))
    stored = load_checkpoint(path)
    cfg = stored["cfg"]
    if "_name" not in cfg["model"]:
        raise ValueError(f"{path} is no model that fairseq builds from {CONFIG}: keep {MODEL}")
    state = checkpoint_of(
        *(stored["model"], cfg["model"], cfg["task"], updates_of(stored) or 0, stored["task_state"])
    )
    return {**state, "cfg": OmegaConf.create(state["cfg"])}


def load_with_data(path: Path, data: Path) -> tuple[BaseFairseqModel, FairseqTask]:
    """Load a checkpoint's model onto the CPU, and its task with the dictionaries of a folder.

    Args:
        path: the checkpoint.
        data: the folder of the dictionaries.

    Returns:
        Model and task.

    Raises:
        FileNotFoundError: the file or the folder is missing.
        ValueError: no model can be built from them; names the file.
    """
    for needed in (path, data):
        if not needed.exists():
            raise FileNotFoundError(f"{needed} does not exist")
    register()
    with untrusted(path):
        (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
            [str(path)], arg_overrides={"data": str(data)}
        )
    return model, task
