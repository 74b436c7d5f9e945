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
        cfg: of the checkpoint, its options of generation included.
        task: whose `complete_decoding` fills in what `cfg` leaves open.
        models: an ensemble.
        pipeline: between raw text and subwords; None: text is given as the tokens of the
            dictionary, or as `cfg` has --tokenizer and --bpe.
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
            sentences: raw text where the folder says how it was prepared, else tokens.
            beam: width of the beam; None: the bundle's own, or the paper's 4.
            verbose: also log hypotheses and scores.
            options: fairseq's options of generation, such as `lenpen`, by their names.

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
        """A sentence as numbers of the source dictionary, (S,), its end included."""
        if self.pipeline is None:
            return super().encode(sentence)
        return self.binarize(self.pipeline.encode(sentence))

    def decode(self, tokens: torch.LongTensor) -> str:
        """The text of numbers of the target dictionary."""
        if self.pipeline is None:
            return super().decode(tokens)
        return self.pipeline.decode(self.string(tokens))

    def _beam(self, given: int | None) -> int:
        return self.cfg.generation.beam if given is None else given


class FromPretrained:
    """Gives a model of fairseq `from_pretrained`; stands before fairseq's class."""

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str | Path,
        checkpoint_file: str = "model.pt",
        data_name_or_path: str | Path = ".",
        **options: Any,
    ) -> HubInterface:
        """Load checkpoints of a folder, ready to translate.

        Args:
            model_name_or_path: the folder: a bundle, or where fairseq-train saved.
            checkpoint_file: a file there, or several for an ensemble, joined by ":".
            data_name_or_path: folder of the dictionaries; "." is the model's own.
            options: override what the checkpoint has, such as `bpe` and `bpe_codes`.

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
