"""The models that recipes/ancestors.sh compares: their flags, training recipes and cost.

With 10,000 subwords all have as many parameters as the Transformer, within 4 %. They differ in what
the decoder can read of the source: one state, all states, or the states of all layers.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from trainings import finished, require_languages

from vaswani_plugin.metrics.ancestor_multiply_adds import (
    ConvolutionalSizes,
    RecurrentSizes,
)
from vaswani_plugin.metrics.multiply_adds import (
    Positions,
    Sizes,
    TransformerSizes,
    training_flops_of,
)
from vaswani_plugin.model.architectures import RECURRENT_TINY, row_of
from vaswani_plugin.text.messages import InputError

WIDTH_UNKNOWN = 512  # width in the schedule (Eq. 3) of a model without d_model
_TRANSFORMER = row_of("vaswani_tiny").changes
_LSTM_WIDTH, _LSTM_LAYERS = 170, RECURRENT_TINY["layers"]
_EMBEDDING, _CHANNELS, _KERNEL, _READING, _WRITING = 82, 128, 3, 4, 3
_CONVOLUTION = f"[({_CHANNELS}, {_KERNEL})]"
_WIDE = ("--d-model", str(_LSTM_WIDTH))


def _lstm(both_ways: bool, attention: str = "none") -> Callable[[int], Sizes]:
    sizes = _LSTM_WIDTH, _LSTM_LAYERS
    return lambda vocabulary: RecurrentSizes(*sizes, vocabulary, both_ways, attention)


def _convolutional(vocabulary: int) -> Sizes:
    layer = (_CHANNELS, _KERNEL)
    return ConvolutionalSizes(
        _EMBEDDING, (layer,) * _READING, (layer,) * _WRITING, _EMBEDDING, vocabulary
    )


def _transformer(vocabulary: int, d_k: int | None = None) -> Sizes:
    names = ("d_model", "d_ff", "encoder_layers", "decoder_layers", "heads")
    head = _TRANSFORMER["d_model"] // _TRANSFORMER["heads"]
    sizes = {name: _TRANSFORMER[name] for name in names}
    return TransformerSizes(**sizes, d_k=d_k or head, d_v=head, vocabulary=vocabulary)


@dataclass(frozen=True)
class Model:
    """A line of the table.

    width: d_model in its schedule (Eq. 3). rate: the highest learning rate, at the end of the
    warm-up. sizes: function from the vocabulary size to the sizes that determine the cost.
    """

    name: str
    title: str
    flags: tuple[str, ...]
    width: int
    rate: float
    sizes: Callable[[int], Sizes]

    def flops(self, vocabulary: int, batch: Positions) -> int:
        """FLOPs of one epoch of training, forward and backward, without padding."""
        return training_flops_of(self.sizes(vocabulary), batch)


def _looking(name: str, title: str, attention: str, rate: float) -> Model:
    """A Bi-LSTM model with the given attention of its decoder."""
    flags = ("--arch", "vaswani_attention_lstm_tiny", *_WIDE, "--attention", attention)
    counted = attention.removeprefix("scaled-")
    return Model(name, title, flags, _LSTM_WIDTH, rate, _lstm(True, counted))


def _sweep(d_k: int, scaled: bool) -> Model:
    """The Transformer with heads of width d_k, its scores scaled (Eq. 1) or not."""
    name = f"{'scaled' if scaled else 'unscaled'}-{d_k}"
    title = f"Transformer, d_k {d_k}, {'scaled' if scaled else 'not scaled'}"
    scale = "sqrt" if scaled else "none"
    flags = ("--arch", "vaswani_tiny", "--d-k", str(d_k), "--attention-scale", scale)
    return Model(
        name, title, flags, _TRANSFORMER["d_model"], 2.5e-3, partial(_transformer, d_k=d_k)
    )


_SEQ2SEQ = ("--arch", "vaswani_seq2seq_lstm_tiny", *_WIDE)
MODELS = (
    Model(
        "forwards", "LSTM, source forwards", (*_SEQ2SEQ, "--no-reverse-source"),
        _LSTM_WIDTH, 8e-3, _lstm(False),
    ),
    Model("seq2seq", "LSTM, source reversed", _SEQ2SEQ, _LSTM_WIDTH, 8e-3, _lstm(False)),
    _looking("both-ways", "Bi-LSTM encoder, no attention", "none", 8e-3),
    _looking("mean", "Bi-LSTM, mean of its states at every step", "mean", 4e-3),
    _looking("additive", "Bi-LSTM, additive attention", "additive", 4e-3),
    _looking("attention", "Bi-LSTM, dot-product attention", "dot", 4e-3),
    _looking("scaled", "Bi-LSTM, scaled dot-product attention", "scaled-dot", 4e-3),
    Model(
        "convolution", "ConvS2S (fairseq's fconv)",
        (
            "--arch", "fconv", "--share-input-output-embed", "--clip-norm", "0.1",
            "--encoder-embed-dim", str(_EMBEDDING), "--decoder-embed-dim", str(_EMBEDDING),
            "--decoder-out-embed-dim", str(_EMBEDDING),
            "--encoder-layers", f"{_CONVOLUTION} * {_READING}",
            "--decoder-layers", f"{_CONVOLUTION} * {_WRITING}",
        ),
        WIDTH_UNKNOWN, 2e-3, _convolutional,
    ),
    Model(
        "transformer", "Transformer", ("--arch", "vaswani_tiny"),
        _TRANSFORMER["d_model"], 2.5e-3, _transformer,
    ),
)  # fmt: skip
SWEEP = tuple(_sweep(d_k, scaled) for d_k in (8, 32, 128, 512) for scaled in (True, False))
"""Models that show the effect of scaling the scores (section 3.2.1); trained on request."""


def choose_models(names: list[str]) -> list[Model]:
    """Returns the models with these names, in the table's order; without names, `MODELS`.

    "sweep" means all models of `SWEEP`.

    Raises:
        InputError: a name is unknown.
    """
    sweep = [model.name for model in SWEEP]
    known = [*(model.name for model in MODELS), *sweep]
    for name in names:
        if name not in (*known, "sweep"):
            raise InputError(f"{name}: no model here; they are {' '.join(known)} and sweep")
    wanted = {*names, *(sweep if "sweep" in names else ())}
    if not wanted:
        return list(MODELS)
    return [model for model in (*MODELS, *SWEEP) if model.name in wanted]


@dataclass(frozen=True)
class Settings:
    """The settings that all trainings share.

    A training ends after budget_seconds, or after max_update updates if budget_seconds is 0. It is
    validated and translates `points` times, evenly spaced. threads and gpus are those of one
    training.
    """

    budget_seconds: int
    max_update: int
    points: int
    max_tokens: int
    warmup_updates: int
    threads: int
    gpus: int

    def limit(self, point: int) -> list[str]:
        """Returns the flags that end a training at a point, from 1 to `points`."""
        share = point / self.points
        if self.budget_seconds:
            return ["--stop-time-hours", f"{self.budget_seconds * share / 3600:.8f}"]
        return ["--max-update", str(max(1, round(self.max_update * share)))]

    @property
    def budget(self) -> str:
        """Formats the limit of a training for people."""
        if self.budget_seconds:
            return f"{self.budget_seconds:,} s of training each"
        return f"{self.max_update:,} updates each"


@dataclass(frozen=True)
class Training:
    """A model with a seed."""

    model: Model
    seed: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.model.name}-{self.seed}"

    def folder(self, work: Path) -> Path:
        """Returns the folder of the training."""
        return work / "models" / self.name

    def flags(self, settings: Settings) -> list[str]:
        """Returns the flags of `fairseq-train`, without those for data, folder and limit."""
        # Eq. 3: the highest rate is factor x width^-0.5 x warmup^-0.5.
        factor = self.model.rate * (self.model.width * settings.warmup_updates) ** 0.5
        flags = [*self.model.flags, "--max-tokens", str(settings.max_tokens)]
        flags += ["--warmup-updates", str(settings.warmup_updates), "--lr-factor", f"{factor:.4f}"]
        return [*flags, "--seed", str(self.seed)]

    def key(self, settings: Settings, data_key: str) -> str:
        """Returns everything on which the result depends, as a text."""
        flags = [*self.flags(settings), *settings.limit(settings.points)]
        device = f"threads {settings.threads} gpus {settings.gpus} points {settings.points}"
        return f"data {data_key} {device} {' '.join(flags)}"

    def result(self, work: Path, settings: Settings, data_key: str) -> dict[str, Any] | None:
        """Reads the result; None if the training is not finished.

        Raises:
            InputError: the file is broken.
        """
        return finished(self.folder(work), self.key(settings, data_key))


def trainings_of(models: list[Model], seeds: list[int]) -> list[Training]:
    """Pairs each model with each seed."""
    return [Training(model, seed) for model in models for seed in seeds]


def find_test_texts(data_bin: Path) -> tuple[str, str, list[Path]]:
    """Finds the test set beside the binarized data of a recipe.

    Returns:
        Source and target language, and the paths of the source's words, the target's words and the
        target's running text.

    Raises:
        InputError: no recipe binarized the data, or the recipe leaves no words.
    """
    source, target = require_languages(data_bin)
    files = ("tok", source), ("tok", target), ("raw", target)
    paths = [data_bin.parent / folder / f"test.{side}" for folder, side in files]
    for path in paths:
        if not path.is_file():
            raise InputError(
                f"{path}: missing; --data-bin must lie in a recipe's work folder, beside raw/ and "
                "tok/"
            )
    return source, target, paths


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `Settings`, and the flags for paths."""
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--data-bin", type=Path, required=True)
    parser.add_argument("--data-key", required=True, help="a text that changes with the data")
    parser.add_argument("--seeds", required=True, help="random seeds, such as 1,2")
    parser.add_argument("--parallel", type=int, default=1, help="trainings at the same time")
    for name in Settings.__dataclass_fields__:
        parser.add_argument("--" + name.replace("_", "-"), type=int, required=True)


def settings_of(args: argparse.Namespace) -> Settings:
    """Makes `Settings` from the flags of `add_settings`; --gpus are those of all trainings."""
    given = {name: getattr(args, name) for name in Settings.__dataclass_fields__}
    return Settings(**given | {"gpus": args.gpus // args.parallel})
