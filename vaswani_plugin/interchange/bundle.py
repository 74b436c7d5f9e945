"""A bundle's model, ready to translate or to parse; text/settings.py says what it holds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils, tasks
from fairseq.models import BaseFairseqModel
from fairseq.tasks.translation import TranslationTask
from omegaconf import open_dict

from vaswani_plugin import register
from vaswani_plugin.interchange.untrusted import untrusted
from vaswani_plugin.text.corpus_io import InputError
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import MODEL, AnySettings, Settings, TextSettings, TreeSettings
from vaswani_plugin.text.treebank_coding import SYMBOLS, WORDS

TASK = "vaswani_translation"
PARSING_TASK = "vaswani_parsing"
KINDS = {
    Settings: ("a translation model", "vaswani translate"),
    TextSettings: ("a language model", "vaswani complete, lm and summarize"),
    TreeSettings: ("a parser", "vaswani parse"),
}
"""What a bundle with these settings holds, and the commands that take it."""


@dataclass(frozen=True)
class Bundle:
    """The folder and the functions between its raw text and its subwords."""

    folder: Path
    pipeline: Pipeline

    @classmethod
    def load(cls, folder: Path, kind: type[AnySettings] = Settings) -> "Bundle":
        """Read all but the model.

        Args:
            kind: of settings: `Settings` for a translation model, `TreeSettings` for a parser.

        Raises:
            ValueError: the folder is no bundle of this kind, or a file in it can't be used;
                names it.
            OSError: a file can't be read.
        """
        try:
            pipeline = Pipeline.load(folder)
        except InputError as error:
            raise ValueError(str(error)) from error
        if not isinstance(pipeline.settings, kind):
            held, commands = KINDS[type(pipeline.settings)]
            raise ValueError(
                f"{folder} holds {held}, and {KINDS[kind][0]} is needed here: {held} is for "
                f"{commands}"
            )
        return cls(folder, pipeline)

    def load_model(self, **task_options: Any) -> tuple[BaseFairseqModel, TranslationTask]:
        """The model on the CPU, and the task that decodes with it as the paper does.

        A model that fairseq's own translation task trained gets ours as well.

        Args:
            task_options: of the task, other than in training.

        Raises:
            ValueError: the checkpoint can't be used, or was trained with other dictionaries.
            OSError: it can't be read.
        """
        register()
        with untrusted(self.folder / MODEL):
            return self._load_model(task_options)

    def _load_model(self, task_options: dict[str, Any]) -> tuple[BaseFairseqModel, TranslationTask]:
        settings = self.pipeline.settings
        path = str(self.folder / MODEL)
        state = checkpoint_utils.load_checkpoint_to_cpu(path)
        task_cfg = state["cfg"].task
        is_parser = isinstance(settings, TreeSettings)
        task_names = (PARSING_TASK,) if is_parser else (TASK, "translation")
        if task_cfg._name not in task_names:
            raise ValueError(
                f"{path} was trained by --task {task_cfg._name}: this bundle needs "
                f"{KINDS[type(settings)][0]}"
            )
        languages = (WORDS, SYMBOLS)
        if not is_parser:
            languages = settings.source_language, settings.target_language
        with open_dict(task_cfg):
            task_cfg._name = task_names[0]
            task_cfg.data = str(self.folder)
            task_cfg.source_lang, task_cfg.target_lang = languages
            task_cfg.update(task_options)
            task_cfg.length_penalty = "paper"
            task_cfg.eval_bleu = False
        task = tasks.setup_task(task_cfg, from_checkpoint=True)
        (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task(
            [path], task=task, state=state
        )
        return model.eval(), task
