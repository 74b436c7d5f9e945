"""A bundle's model, ready to translate; vaswani_text/pipeline.py says what a bundle holds."""

from dataclasses import dataclass
from pathlib import Path

from fairseq import checkpoint_utils, tasks
from fairseq.models import BaseFairseqModel
from fairseq.tasks.translation import TranslationTask
from omegaconf import open_dict

from vaswani_text.corpus_io import InputError
from vaswani_text.pipeline import MODEL, Pipeline

TASK = "vaswani_translation"


@dataclass(frozen=True)
class Bundle:
    """The folder and the functions between its raw text and its subwords."""

    folder: Path
    pipeline: Pipeline

    @classmethod
    def load(cls, folder: Path) -> "Bundle":
        """Read all but the model.

        Raises:
            ValueError: the folder is no bundle, or a file in it can't be used; names it.
            OSError: a file can't be read.
        """
        try:
            return cls(folder, Pipeline.load(folder))
        except InputError as error:
            raise ValueError(str(error)) from error

    def load_model(self) -> tuple[BaseFairseqModel, TranslationTask]:
        """The model on the CPU, and the task that decodes with it as the paper does.

        A model that fairseq's own translation task trained gets ours as well.

        Raises:
            ValueError: the checkpoint can't be used, or was trained with other dictionaries.
            OSError: it can't be read.
        """
        settings = self.pipeline.settings
        path = str(self.folder / MODEL)
        state = checkpoint_utils.load_checkpoint_to_cpu(path)
        task_cfg = state["cfg"].task
        if task_cfg._name not in ("translation", TASK):
            raise ValueError(
                f"{path} was trained by --task {task_cfg._name}: a bundle needs a translation model"
            )
        with open_dict(task_cfg):
            task_cfg._name = TASK
            task_cfg.data = str(self.folder)
            task_cfg.source_lang = settings.source_language
            task_cfg.target_lang = settings.target_language
            task_cfg.length_penalty = "paper"
            task_cfg.eval_bleu = False
        task = tasks.setup_task(task_cfg, from_checkpoint=True)
        (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task(
            [path], task=task, state=state
        )
        return model.eval(), task
