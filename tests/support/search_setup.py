"""Small models to decode with, a generator over them, and the same models as plain functions."""

import argparse
from collections.abc import Callable
from functools import cache

import torch
from fairseq.sequence_generator import SequenceGenerator
from model_factory import make_dictionary, make_model, make_task
from omegaconf import OmegaConf
from torch.nn.utils.rnn import pad_sequence

from vaswani_plugin.fairseq_plugin.models.transformer import VaswaniTransformer
from vaswani_plugin.fairseq_plugin.tasks.translation import (
    VaswaniTranslationConfig,
    VaswaniTranslationTask,
)
from vaswani_plugin.search.search import StartTracking

PAD, EOS, UNK, FIRST_WORD = 1, 2, 3, 4


def make_translation_task(symbols: int, **changes) -> VaswaniTranslationTask:
    """The real task over a made-up joined dictionary."""
    dictionary = make_dictionary(symbols)
    cfg = OmegaConf.structured(VaswaniTranslationConfig(**changes))
    return VaswaniTranslationTask(cfg, dictionary, dictionary)


def make_peaked_model(
    symbols: int, seed: int = 1, peak: float = 2.5, **changes
) -> VaswaniTransformer:
    """A random model that prefers some words: its logits are `peak` times as spread."""
    model = make_model(make_task(symbols), seed=seed, **changes)
    with torch.no_grad():
        model.projection_weight.mul_(peak)
    return model


def make_sample(sources: list[list[int]], left_pad: bool = True) -> dict:
    """fairseq's batch of these sources; the end of sentence is added, padding is on the left."""
    rows = [torch.tensor([*source, EOS]) for source in sources]
    padded = pad_sequence(rows, True, PAD, "left" if left_pad else "right")
    inputs = {"src_tokens": padded, "src_lengths": torch.tensor([len(row) for row in rows])}
    return {"id": torch.arange(len(rows)), "net_input": inputs}


def make_generator(
    task: VaswaniTranslationTask,
    models: list[VaswaniTransformer],
    allowed: list[int] | None = None,
    start_tracking: tuple[StartTracking, ...] = (),
    **args,
) -> SequenceGenerator:
    """The task's generator; with `allowed`, only these words and the end are ever output."""
    extra: dict = {"start_tracking": start_tracking}
    if allowed is not None:
        dictionary = task.target_dictionary
        kept = {PAD, EOS, UNK, *allowed}
        suppressed = [dictionary[i] for i in range(len(dictionary)) if i not in kept]
        extra["tokens_to_suppress"] = suppressed
    return task.build_generator(models, argparse.Namespace(**args), extra_gen_cls_kwargs=extra)


def as_function(
    models: list[VaswaniTransformer], source: list[int]
) -> Callable[[tuple[int, ...]], list[float]]:
    """log P of every next token after a prefix, by full passes; an ensemble's P is the mean."""
    src_tokens = torch.tensor([[*source, EOS]])

    @cache
    @torch.no_grad()
    def log_probabilities(prefix: tuple[int, ...]) -> list[float]:
        previous = torch.tensor([[EOS, *prefix]])
        probabilities = [
            model(src_tokens, None, previous)[0][0, -1].double().softmax(-1) for model in models
        ]
        return (sum(probabilities) / len(models)).log().tolist()

    return log_probabilities


def outputs_of(hypotheses: list[dict]) -> list[tuple[tuple[int, ...], float]]:
    """Tokens and score of each hypothesis, in the order given."""
    return [(tuple(h["tokens"].tolist()), h["score"].item()) for h in hypotheses]
