"""The models that recipes/ancestors.sh compares: their flags, training recipes and cost.

With 10,000 subwords all have as many parameters as the Transformer, within 4 %. They differ in what
the decoder can read of the source: one state, all states, or the states of all layers.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from trainings import finished, require_languages

from vaswani_plugin.errors import UserError
from vaswani_plugin.figures.flops import (
    TRAINING_PASSES,
    count_flops,
    flops_of_lengths,
    forward_flops,
    row_settings,
)
from vaswani_plugin.model.architectures import row_of

WIDTH_UNKNOWN = 512  # width in the schedule (Eq. 3) of a model without d_model
_TRANSFORMER = row_of("vaswani_tiny").changes
_LSTM_WIDTH = 170
_EMBEDDING, _CHANNELS, _KERNEL, _READING, _WRITING = 82, 128, 3, 4, 3
_CONVOLUTION = f"[({_CHANNELS}, {_KERNEL})]"
_WIDE = ("--d-model", str(_LSTM_WIDTH))


Count = Callable[[int, int, int], int]
"""FLOPs forward of one sentence, from the vocabulary's size and the lengths of its two sides."""


def _ours(arch: str, **changes: Any) -> Count:
    model, settings = row_settings(arch)
    return lambda vocabulary, *lengths: forward_flops(
        model, settings | changes, vocabulary, (1, *lengths)
    )


def _convolutional(vocabulary: int, source: int, target: int) -> int:
    """fairseq's fconv; a convolution is counted at the positions of its input, without padding."""
    import torch
    from fairseq.data import Dictionary
    from fairseq.models.fconv import FConvDecoder, FConvEncoder

    dictionary = Dictionary()
    dictionary.symbols = [*dictionary.symbols, *map(str, range(vocabulary - len(dictionary)))]
    layer = (_CHANNELS, _KERNEL)
    encoder = FConvEncoder(dictionary, _EMBEDDING, convolutions=(layer,) * _READING).eval()
    decoder = FConvDecoder(
        dictionary, _EMBEDDING, out_embed_dim=_EMBEDDING, convolutions=(layer,) * _WRITING,
        attention=True, share_embed=True,
    ).eval()  # fmt: skip
    encoder.num_attention_layers = _WRITING
    tokens, shifted = (torch.full((1, size), 5) for size in (source, target))

    def conv_tbc(x: Any, weight: Any, *rest: Any, **options: Any) -> int:
        return 2 * math.prod(x[:2]) * math.prod(weight)  # (T, B, C_in) and (K, C_in, C_out)

    return count_flops(
        lambda: decoder(shifted, encoder(tokens, torch.tensor([source]))),
        {torch.ops.aten.conv_tbc: conv_tbc},
    )


@dataclass(frozen=True)
class Model:
    """A line of the table.

    width: d_model in its schedule (Eq. 3). rate: the highest learning rate, at the end of the
    warm-up.
    """

    name: str
    title: str
    flags: tuple[str, ...]
    width: int
    rate: float
    count: Count

    def flops(self, vocabulary: int, lengths: dict[str, int]) -> float:
        """FLOPs of one epoch of training, forward and backward, without padding.

        Args:
            vocabulary: its size.
            lengths: sums over the sentences, by the names of `LENGTH_SUMS`.
        """
        return TRAINING_PASSES * flops_of_lengths(partial(self.count, vocabulary), lengths)


def _looking(name: str, title: str, attention: str, rate: float) -> Model:
    """A Bi-LSTM model with the given attention of its decoder."""
    flags = ("--arch", "vaswani_attention_lstm_tiny", *_WIDE, "--attention", attention)
    count = _ours("vaswani_attention_lstm_tiny", d_model=_LSTM_WIDTH, attention=attention)
    return Model(name, title, flags, _LSTM_WIDTH, rate, count)


def _sweep(d_k: int, scaled: bool) -> Model:
    """The Transformer with heads of width d_k, its scores scaled (Eq. 1) or not."""
    name = f"{'scaled' if scaled else 'unscaled'}-{d_k}"
    title = f"Transformer, d_k {d_k}, {'scaled' if scaled else 'not scaled'}"
    scale = "sqrt" if scaled else "none"
    flags = ("--arch", "vaswani_tiny", "--d-k", str(d_k), "--attention-scale", scale)
    count = _ours("vaswani_tiny", d_k=d_k)
    return Model(name, title, flags, _TRANSFORMER["d_model"], 2.5e-3, count)


_SEQ2SEQ_COUNT = _ours("vaswani_seq2seq_lstm_tiny", d_model=_LSTM_WIDTH)
_SEQ2SEQ = ("--arch", "vaswani_seq2seq_lstm_tiny", *_WIDE)
MODELS = (
    Model(
        "forwards", "LSTM, source forwards", (*_SEQ2SEQ, "--no-reverse-source"),
        _LSTM_WIDTH, 8e-3, _SEQ2SEQ_COUNT,
    ),
    Model("seq2seq", "LSTM, source reversed", _SEQ2SEQ, _LSTM_WIDTH, 8e-3, _SEQ2SEQ_COUNT),
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
        _TRANSFORMER["d_model"], 2.5e-3, _ours("vaswani_tiny"),
    ),
)  # fmt: skip
SWEEP = tuple(_sweep(d_k, scaled) for d_k in (8, 32, 128, 512) for scaled in (True, False))
"""Models that show the effect of scaling the scores (section 3.2.1); trained on request."""


def choose_models(names: list[str]) -> list[Model]:
    """Returns the models with these names, in the table's order; without names, `MODELS`.

    "sweep" means all models of `SWEEP`.

    Raises:
        UserError: a name is unknown.
    """
    sweep = [model.name for model in SWEEP]
    known = [*(model.name for model in MODELS), *sweep]
    for name in names:
        if name not in (*known, "sweep"):
            raise UserError(f"{name}: no model here; they are {' '.join(known)} and sweep")
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
            UserError: the file is broken.
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
        UserError: no recipe binarized the data, or the recipe leaves no words.
    """
    source, target = require_languages(data_bin)
    files = ("tok", source), ("tok", target), ("raw", target)
    paths = [data_bin.parent / folder / f"test.{side}" for folder, side in files]
    for path in paths:
        if not path.is_file():
            raise UserError(
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
