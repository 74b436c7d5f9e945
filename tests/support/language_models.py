"""Small language models of ours, and texts for them."""

from copy import copy
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY, FairseqLanguageModel
from model_factory import make_task
from omegaconf import OmegaConf
from reference_weights import default_dtype, shake
from torch.nn.utils.rnn import pad_sequence

from vaswani_plugin.model.families import ELSEWHERE, family_of
from vaswani_plugin.search.text_model import TextModel

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
    name: str, values: dict, task: SimpleNamespace | None, seed: int, size: float
) -> FairseqLanguageModel:
    """A float64 model in evaluation mode, its weights shaken."""
    torch.manual_seed(seed)
    config = OmegaConf.structured(MODEL_DATACLASS_REGISTRY[name](**values))
    with default_dtype(torch.float64):
        model = MODEL_REGISTRY[name].build_model(config, task or make_task())
        return shake(model, seed=seed + 10, size=size).eval()


def make_language_model(
    task: SimpleNamespace | None = None, seed: int = 1, **changes
) -> FairseqLanguageModel:
    """A `vaswani_lm`."""
    return _exact("vaswani_lm", {**SIZES, **LIMITS, **changes}, task, seed, size=0.1)


def make_one_layer_model(
    task: SimpleNamespace | None = None, seed: int = 1, **changes
) -> FairseqLanguageModel:
    """A `vaswani_lm_one_layer`."""
    values = {**ONE_LAYER_SIZES, **LIMITS, **changes}
    return _exact("vaswani_lm_one_layer", values, task, seed, size=0.3)


def make_lstm_model(
    task: SimpleNamespace | None = None, seed: int = 1, **changes
) -> FairseqLanguageModel:
    """A `vaswani_lm_lstm`."""
    return _exact("vaswani_lm_lstm", {**LSTM_SIZES, **NO_DROPOUT, **changes}, task, seed, size=0.5)


MAKERS = {"ours": make_language_model}
if ELSEWHERE:  # without the folder ancestors/ there are no others
    MAKERS |= {"lstm": make_lstm_model, "one layer": make_one_layer_model}


def text_model(model: FairseqLanguageModel) -> TextModel:
    """The same model, its weights shared, as the search and the scores take it."""
    names = {kind: name for name, kind in MODEL_REGISTRY.items()}
    own = copy(model.decoder)
    own.__class__ = type(own).__bases__[0]  # the class that knows no fairseq
    return family_of(names[type(model)]).searched(own)


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
