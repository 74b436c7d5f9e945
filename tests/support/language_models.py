"""Small language models of ours, and texts for them."""

from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from model_factory import make_task
from omegaconf import OmegaConf
from reference_weights import default_dtype, shake

from vaswani_plugin.fairseq_plugin.configurations import (
    OneLayerConfig,
    RecurrentLanguageModelConfig,
    VaswaniLanguageModelConfig,
)
from vaswani_plugin.fairseq_plugin.models.language_models import (
    LanguageDecoder,
    LSTMLanguageModel,
    OneLayerDecoder,
    OneLayerModel,
    VaswaniLanguageModel,
)
from vaswani_plugin.modules.language_model import LanguageModel
from vaswani_plugin.modules.one_layer import OneLayerLanguageModel
from vaswani_plugin.search.text_models import TextModel

LIMITS = {"tokens_per_sample": 40, "add_bos_token": False, "max_target_positions": None}
SIZES = {"d_model": 16, "d_ff": 24, "decoder_layers": 3, "heads": 4, "dropout": 0.0}
ONE_LAYER_SIZES = {"d_model": 16, "d_hidden": 12, "d_ff": 20}
LSTM_SIZES = {"d_model": 10, "units": 14, "layers": 3}
NO_DROPOUT = {
    **{"dropout": 0.0, "hidden_dropout": 0.0, "input_dropout": 0.0, "word_dropout": 0.0},
    "weight_dropout": 0.0,
}


def make_language_model(
    task: SimpleNamespace | None = None, seed: int = 1, **changes
) -> VaswaniLanguageModel:
    """A float64 `vaswani_lm` in evaluation mode, its weights shaken."""
    torch.manual_seed(seed)
    cfg = OmegaConf.structured(VaswaniLanguageModelConfig(**{**SIZES, **LIMITS, **changes}))
    with default_dtype(torch.float64):
        model = VaswaniLanguageModel.build_model(cfg, task or make_task())
        return shake(model, seed=seed + 10, size=0.1).eval()


def make_one_layer_model(
    task: SimpleNamespace | None = None, seed: int = 1, **changes
) -> OneLayerModel:
    """A float64 `vaswani_lm_one_layer` in evaluation mode, its weights shaken."""
    torch.manual_seed(seed)
    cfg = OmegaConf.structured(OneLayerConfig(**{**ONE_LAYER_SIZES, **LIMITS, **changes}))
    with default_dtype(torch.float64):
        model = OneLayerModel.build_model(cfg, task or make_task())
        return shake(model, seed=seed + 10, size=0.3).eval()


def make_lstm_model(
    task: SimpleNamespace | None = None, seed: int = 1, **changes
) -> LSTMLanguageModel:
    """A float64 `vaswani_lm_lstm` in evaluation mode, its weights shaken."""
    torch.manual_seed(seed)
    cfg = OmegaConf.structured(
        RecurrentLanguageModelConfig(**{**LSTM_SIZES, **NO_DROPOUT, **changes})
    )
    with default_dtype(torch.float64):
        model = LSTMLanguageModel.build_model(cfg, task or make_task())
        return shake(model, seed=seed + 10, size=0.5).eval()


def text_model(model: torch.nn.Module, kind: type[TextModel] = TextModel) -> TextModel:
    """The same model, its weights shared, as the search and the scores take it."""
    own, longest = model.decoder, model.max_decoder_positions()
    if isinstance(own, LanguageDecoder):
        layers, options = list(own.layers), {"dropout": own.dropout, "window": own.window}
        own = LanguageModel(own.embedding, own.positions, layers, **options)
    elif isinstance(own, OneLayerDecoder):
        own = OneLayerLanguageModel(own.embedding, own.positions, own.layer, own.dropout)
    return kind(own, longest)


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
    width = max(map(len, texts))
    rows = [
        [pad] * (width - len(text)) + text if left else text + [pad] * (width - len(text))
        for text in texts
    ]
    return torch.tensor(rows)
