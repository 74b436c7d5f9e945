"""Small language models of ours, and texts for them."""

from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqLanguageModel
from model_factory import make_task
from omegaconf import OmegaConf
from reference_weights import default_dtype, shake
from torch.nn.utils.rnn import pad_sequence

from vaswani_plugin.ancestors import fairseq_adapters as ancestors
from vaswani_plugin.ancestors.one_layer import OneLayerLanguageModel
from vaswani_plugin.ancestors.search_adapters import OneLayerTexts, RecurrentTexts
from vaswani_plugin.fairseq_plugin import configurations
from vaswani_plugin.fairseq_plugin.models import language_models
from vaswani_plugin.modules.transformer import LanguageModel
from vaswani_plugin.search.plain_models import TextModel

LIMITS = {"tokens_per_sample": 40, "add_bos_token": False, "max_target_positions": None}
SIZES = {"d_model": 16, "d_ff": 24, "decoder_layers": 3, "heads": 4, "dropout": 0.0}
SIZES |= {"initial_weights": "own"}
ONE_LAYER_SIZES = {"d_model": 16, "d_hidden": 12, "d_ff": 20}
LSTM_SIZES = {"d_model": 10, "units": 14, "layers": 3}
NO_DROPOUT = {
    **{"dropout": 0.0, "hidden_dropout": 0.0, "input_dropout": 0.0, "word_dropout": 0.0},
    "weight_dropout": 0.0,
}


def _exact(
    kind: type[FairseqLanguageModel],
    config: object,
    task: SimpleNamespace | None,
    seed: int,
    size: float,
) -> FairseqLanguageModel:
    """A float64 model in evaluation mode, its weights shaken."""
    torch.manual_seed(seed)
    with default_dtype(torch.float64):
        model = kind.build_model(OmegaConf.structured(config), task or make_task())
        return shake(model, seed=seed + 10, size=size).eval()


def make_language_model(
    task: SimpleNamespace | None = None, seed: int = 1, **changes
) -> language_models.VaswaniLanguageModel:
    """A `vaswani_lm`."""
    config = configurations.VaswaniLanguageModelConfig(**{**SIZES, **LIMITS, **changes})
    return _exact(language_models.VaswaniLanguageModel, config, task, seed, size=0.1)


def make_one_layer_model(
    task: SimpleNamespace | None = None, seed: int = 1, **changes
) -> ancestors.OneLayerModel:
    """A `vaswani_lm_one_layer`."""
    config = ancestors.OneLayerConfig(**{**ONE_LAYER_SIZES, **LIMITS, **changes})
    return _exact(ancestors.OneLayerModel, config, task, seed, size=0.3)


def make_lstm_model(
    task: SimpleNamespace | None = None, seed: int = 1, **changes
) -> ancestors.LSTMLanguageModel:
    """A `vaswani_lm_lstm`."""
    config = ancestors.RecurrentLanguageModelConfig(**{**LSTM_SIZES, **NO_DROPOUT, **changes})
    return _exact(ancestors.LSTMLanguageModel, config, task, seed, size=0.5)


def text_model(model: torch.nn.Module) -> TextModel:
    """The same model, its weights shared, as the search and the scores take it."""
    own = model.decoder
    if isinstance(own, language_models.LanguageDecoder):
        layers, options = list(own.layers), {"dropout": own.dropout, "window": own.window}
        return TextModel(LanguageModel(own.embedding, own.positions, layers, **options))
    if isinstance(own, ancestors.LSTMLanguageDecoder):
        return RecurrentTexts(own)
    parts = own.embedding, own.positions, own.layer, own.dropout
    return OneLayerTexts(OneLayerLanguageModel(*parts))


def random_texts(dictionary: Dictionary, lengths: list[int], seed: int = 3) -> list[list[int]]:
    """Texts of words, each begun by the end of sentence."""
    generator = torch.Generator().manual_seed(seed)
    first, last = dictionary.nspecial, len(dictionary)
    return [
        [dictionary.eos(), *torch.randint(first, last, (n - 1,), generator=generator).tolist()]
        for n in lengths
    ]


def padded(texts: list[list[int]], pad: int, left: bool = False) -> torch.Tensor:
    """(B, T)."""
    rows = [torch.tensor(text) for text in texts]
    return pad_sequence(rows, True, pad, "left" if left else "right")
