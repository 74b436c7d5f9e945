"""fairseq's hub interface over our models: raw text in and out, decoded as the paper does.

`VaswaniTransformer.from_pretrained(FOLDER).translate("Hello.")`
"""

from pathlib import Path
from typing import Any

import torch
from fairseq import hub_utils
from omegaconf import OmegaConf, open_dict
from torch import Tensor

from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import SETTINGS, Settings


class HubInterface(hub_utils.GeneratorHubInterface):
    """fairseq's `GeneratorHubInterface` with the task's decoding as the default.

    Args:
        cfg: configuration of the checkpoint, with its generation options.
        task: its `complete_decoding` fills in the generation options that `cfg` lacks.
        models: the models of an ensemble.
        pipeline: converts raw text to subwords and back; None: text consists of tokens of the
            dictionary, or is converted by the --tokenizer and --bpe of `cfg`.
    """

    def __init__(self, cfg: Any, task: Any, models: list, pipeline: Pipeline | None = None) -> None:
        super().__init__(cfg, task, models)
        self.pipeline = pipeline
        if hasattr(task, "complete_decoding"):
            decoding = vars(task.complete_decoding(cfg.generation))
            if pipeline is not None and getattr(pipeline.settings, "beam", None):
                decoding["beam"] = pipeline.settings.beam
            with open_dict(self.cfg), open_dict(task.cfg):
                self.cfg.generation = OmegaConf.create(decoding)
                task.cfg.decoding_is_complete = True

    def translate(
        self, sentences: str | list[str], beam: int | None = None, verbose: bool = False, **options
    ) -> str | list[str]:
        """The best translations of one sentence or of many.

        Args:
            sentences: raw text if the folder says how text is prepared, else tokens.
            beam: width of the beam; None: the bundle's own, or the paper's 4.
            verbose: also log hypotheses and scores.
            options: fairseq's generation options by name, such as `lenpen`.

        Returns:
            One translation, or a list if `sentences` is a list.

        Raises:
            UserError: when an option is out of range.
        """
        return self.sample(sentences, self._beam(beam), verbose, **options)

    def generate(
        self,
        tokenized_sentences: Tensor | list[Tensor],
        beam: int | None = None,
        verbose: bool = False,
        **options,
    ) -> list[list[dict[str, Tensor]]] | list[dict[str, Tensor]]:
        """Hypotheses of encoded sentences; see `translate` and fairseq's method."""
        return super().generate(tokenized_sentences, self._beam(beam), verbose, **options)

    def encode(self, sentence: str) -> torch.LongTensor:
        """A sentence as numbers of the source dictionary, (S,), with the end-of-sentence token."""
        if self.pipeline is None:
            return super().encode(sentence)
        return self.binarize(self.pipeline.encode(sentence))

    def decode(self, tokens: torch.LongTensor) -> str:
        """The text of a sequence (T,) of numbers of the target dictionary."""
        if self.pipeline is None:
            return super().decode(tokens)
        return self.pipeline.decode(self.string(tokens))

    def _beam(self, given: int | None) -> int:
        return self.cfg.generation.beam if given is None else given


class FromPretrained:
    """Adds `from_pretrained` to a fairseq model; comes before fairseq's class in the bases."""

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str | Path,
        checkpoint_file: str = "model.pt",
        data_name_or_path: str | Path = ".",
        **options: Any,
    ) -> HubInterface:
        """Load one or several checkpoints of a folder for translation.

        Args:
            model_name_or_path: the folder: a bundle, or where fairseq-train saved.
            checkpoint_file: a file there, or several for an ensemble, joined by ":".
            data_name_or_path: folder of the dictionaries; "." is the model's own.
            options: override the checkpoint's options, such as `bpe` and `bpe_codes`.

        Returns:
            The interface to the loaded models.

        Raises:
            OSError: a file can't be read.
            ValueError: the checkpoint or the bundle's settings can't be used.
        """
        folder = Path(model_name_or_path)
        pipeline = None
        if (folder / SETTINGS).is_file():
            pipeline = Pipeline.load(folder)
            if isinstance(pipeline.settings, Settings):
                options.setdefault("source_lang", pipeline.settings.source_language)
                options.setdefault("target_lang", pipeline.settings.target_language)
        options.setdefault("eval_bleu", False)
        loaded = hub_utils.from_pretrained(
            str(folder), checkpoint_file, str(data_name_or_path), cls.hub_models(), **options
        )
        return HubInterface(loaded["args"], loaded["task"], loaded["models"], pipeline)
