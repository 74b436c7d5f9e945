"""The decoder-only Transformer as a fairseq language model."""

from fairseq.models import FairseqLanguageModel, register_model

from vaswani_plugin.fairseq_plugin.models._configuration import completed
from vaswani_plugin.fairseq_plugin.models._language_decoder import (
    LanguageDecoder,
    position_limit,
    require_one_dictionary,
)
from vaswani_plugin.fairseq_plugin.models._own import PaperModel
from vaswani_plugin.fairseq_plugin.models._parts import Parts
from vaswani_plugin.fairseq_plugin.models._rows import register_rows
from vaswani_plugin.model.acceleration import accelerated
from vaswani_plugin.model.architectures import LANGUAGE_MODELS
from vaswani_plugin.model.configurations import VaswaniLanguageModelConfig
from vaswani_plugin.modules.embedding import Embedding


@register_model("vaswani_lm", dataclass=VaswaniLanguageModelConfig)
class VaswaniLanguageModel(PaperModel, FairseqLanguageModel):
    """The right half of Figure 1 without attention to a source; one matrix embeds and projects."""

    @classmethod
    def build_model(cls, cfg: VaswaniLanguageModelConfig, task) -> "VaswaniLanguageModel":
        """Build the model of a configuration.

        Args:
            cfg: the configuration; missing fields get their defaults.
            task: has the dictionary.

        Raises:
            ValueError: when sizes don't fit, or inputs and outputs have different dictionaries.
        """
        require_one_dictionary(task)
        cfg = completed(cfg, VaswaniLanguageModelConfig)
        dictionary = task.source_dictionary
        embedding = Embedding(len(dictionary), cfg.d_model, dictionary.pad())
        decoder = LanguageDecoder(dictionary, embedding, Parts(cfg), position_limit(cfg))
        return accelerated(cls(decoder, cfg))

    def __init__(self, decoder: LanguageDecoder, cfg: VaswaniLanguageModelConfig) -> None:
        super().__init__(decoder)
        self.cfg = cfg


register_rows("vaswani_lm", VaswaniLanguageModelConfig, LANGUAGE_MODELS)
