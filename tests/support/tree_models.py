"""Small random parsers: dictionaries of words and of a tree's symbols, the task, a model."""

import torch
from fairseq.data import Dictionary
from model_factory import make_model
from omegaconf import OmegaConf

from vaswani_plugin.fairseq_plugin.models.transformer import VaswaniTransformer
from vaswani_plugin.fairseq_plugin.tasks.translation import VaswaniParsingConfig, VaswaniParsingTask

LABELS = ("TOP", "NP", "VP")
TAGS = ("DT", "NN")
WORDS = ("the", "dog", "bark@@", "s", "un@@", "happi@@", "ly", "@-@")


def make_dictionaries(
    labelled: bool, labels: tuple[str, ...] = LABELS, tags: tuple[str, ...] = TAGS, rows: int = 0
) -> tuple[Dictionary, Dictionary]:
    """Of words and of symbols, the latter filled up to `rows` as fairseq-preprocess does."""
    words, symbols = Dictionary(), Dictionary()
    for word in WORDS:
        words.add_symbol(word)
    for label in labels:
        symbols.add_symbol(f"({label}")
        symbols.add_symbol(f"){label}" if labelled else ")")
    for tag in tags:
        symbols.add_symbol(tag)
    for number in range(rows - len(symbols)):
        symbols.add_symbol(f"madeupword{number:04d}")
    return words, symbols


def make_parsing_task(
    words: Dictionary, symbols: Dictionary, **changes: object
) -> VaswaniParsingTask:
    """The real task."""
    return VaswaniParsingTask(OmegaConf.structured(VaswaniParsingConfig(**changes)), words, symbols)


def make_parser(
    words: Dictionary,
    symbols: Dictionary,
    seed: int = 1,
    peak: float = 2.5,
    positions: int = 1024,
    **changes: object,
) -> VaswaniTransformer:
    """A random model that prefers some symbols: its logits are `peak` times as spread."""
    task = make_parsing_task(words, symbols)
    sizes = {"share_embeddings": "decoder", "max_target_positions": positions, **changes}
    model = make_model(task, seed, **sizes)
    with torch.no_grad():
        model.projection_weight.mul_(peak)
    return model
