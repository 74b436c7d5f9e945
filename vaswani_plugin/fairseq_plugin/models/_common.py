"""What our fairseq models share: members, the rows of sizes, and the switches of training.

Axes: B batch, T tokens, D d_model, V vocabulary.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from fairseq import models
from hydra.core.config_store import ConfigStore
from omegaconf import open_dict
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.configurations import fairseq_dataclass
from vaswani_plugin.model.architectures import Architecture
from vaswani_plugin.model.configuration import Configuration
from vaswani_plugin.model.families import Family
from vaswani_plugin.modules.loss import SmoothedLoss
from vaswani_plugin.modules.transformer import Cache, Stack

IncrementalState = dict[str, Any]
"""fairseq's name for what a decoder keeps: a `Cache`, or tensors by name, each under a key."""
EncoderOut = dict[str, list[Tensor]]  # the output of an encoder, by name
BATCH_SECOND = ("encoder_out", "state")  # of an encoder's output: the batch is the second axis


class SourceEncoder(models.FairseqEncoder):
    """fairseq's interface for an encoder of `modules`, which comes before it in the bases."""

    max_source_positions: int

    def __init__(self) -> None:
        super().__init__(dictionary=None)

    def reorder_encoder_out(self, encoder_out: EncoderOut, new_order: Tensor) -> EncoderOut:
        """Select the sentences `new_order` (B',) of the batch; an index may occur repeatedly."""
        return {
            name: [x.index_select(int(name in BATCH_SECOND), new_order) for x in tensors]
            for name, tensors in encoder_out.items()
        }

    def max_positions(self) -> int:
        """Longest source in tokens, the end-of-sentence token included."""
        return self.max_source_positions


class CausalDecoder(models.FairseqIncrementalDecoder):
    """fairseq's interface for a decoder of `modules`, which comes before it in the bases."""

    max_target_positions: int
    trains_right_padded: bool = False  # whether training batches are padded on the right only
    weights_are_final: bool = False
    batch_axis: int = 0  # of the tensors in an incremental state

    def __init__(self) -> None:
        super().__init__(dictionary=None)

    def make_generation_fast_(self, retain_dropout: bool = False, **unused: Any) -> None:
        """Mark the weights as final; fairseq's commands call this before they generate."""
        if retain_dropout:
            raise UserError("--retain-dropout: only fairseq's own models do; drop the flag")
        self.weights_are_final = True

    @property
    def right_padded(self) -> bool:
        """Whether padding is on the right only, so that the causal mask covers it: in training."""
        return self.training and self.trains_right_padded

    def cache(self, incremental_state: IncrementalState | None) -> Cache | None:
        """Return the cache that fairseq's incremental state holds, made if it is missing."""
        return None if incremental_state is None else incremental_state.setdefault("cache", Cache())

    def output_layer(self, features: Tensor) -> Tensor:
        """Project features (..., D) to logits (..., V)."""
        return self.project(features)

    def reorder_incremental_state(
        self, incremental_state: IncrementalState, new_order: Tensor
    ) -> None:
        """Reorder the rows of every cache in place: the new row i is the old `new_order[i]`."""
        for cache in incremental_state.values():
            if isinstance(cache, Cache):
                cache.select(new_order)
                continue
            for name, tensor in cache.items():
                cache[name] = tensor.index_select(self.batch_axis, new_order)

    def max_positions(self) -> int:
        """Longest sequence in tokens, the end-of-sentence token included."""
        return self.max_target_positions


class ProjectedLoss:
    """Lets a kernel project the features; comes before fairseq's class in a model's bases."""

    decoder: Any
    # As `modules.loss.projected_loss`; None: the criterion takes the model's own logits.
    projected_loss: Callable[..., SmoothedLoss] | None = None

    @property
    def projection_weight(self) -> Tensor:
        """The rows of the pre-softmax projection (V, D), or of the matrix that embeds."""
        return getattr(self.decoder, "projection", self.decoder.embedding).weight


class TranslationModel(ProjectedLoss, models.FairseqEncoderDecoderModel):
    """What our encoder-decoders share: their encoders take `known_lengths`."""

    takes_known_lengths = True

    @classmethod
    def from_pretrained(cls, *args: Any, **chosen: Any) -> Any:
        """fairseq's hub; its task's values hold where neither `chosen` nor a call of it has one.

        The beam is always the call's: fairseq's `translate` and `generate` have 5, `sample` 1.
        """
        hub = super().from_pretrained(*args, **chosen)
        if hasattr(hub.task, "complete_decoding"):
            values = vars(hub.task.complete_decoding(hub.cfg.generation))
            with open_dict(hub.cfg), open_dict(hub.task.cfg):
                hub.cfg.generation.update({n: chosen.get(n, value) for n, value in values.items()})
                hub.task.cfg.decoding_is_complete = True
        return hub

    @classmethod
    def joined(cls, encoder: Any, decoder: Any, cfg: Any, task: Any) -> Self:
        """Make a model of two built halves, which learn what fairseq asks them for."""
        encoder.dictionary, decoder.dictionary = task.source_dictionary, task.target_dictionary
        encoder.max_source_positions = cfg.max_source_positions
        decoder.max_target_positions = cfg.max_target_positions
        of_task = getattr(task, "cfg", None)  # of fairseq's older tasks nothing is known
        decoder.trains_right_padded = not getattr(of_task, "left_pad_target", True)
        return cls(encoder, decoder)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        known_lengths: np.ndarray | None = None,
        **options: Any,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Predict each next token: see `forward` of the encoder, and of the decoder for options."""
        encoder_out = self.encoder(src_tokens, src_lengths, known_lengths)
        return self.decoder(prev_output_tokens, encoder_out, **options)


def set_training_switches(stack: Stack, cfg: Configuration) -> None:
    """Apply --checkpoint-activations and --compile to the layers of a stack, in training."""
    run = _call
    if cfg.compile:
        run = torch.compile(run, dynamic=True)
    if cfg.checkpoint_activations:
        run = partial(checkpoint, run, use_reentrant=False)
    stack.run_layer = None if run is _call else run


def _call(layer: nn.Module, *arguments: Any, **options: Any) -> Any:
    return layer(*arguments, **options)


def registered(*families: Family) -> Callable[[type], type]:
    """Register a model of fairseq's for families of one configuration, which makes its flags.

    Each row is an `--arch`, and Hydra's `model`; fairseq registers the row of the model's own name.
    """

    def register(model: Any) -> type:
        name, model.family = families[0].model, families[0]
        model.Config = fairseq_dataclass(model.family, model)
        models.register_model(name, dataclass=model.Config)(model)
        for family in families:
            for row in family.rows:
                if row.name != name:
                    keys = partial(_set_unset_keys, family, row)
                    models.register_model_architecture(name, row.name)(keys)
                    node = model.Config(**row.changes)
                    node._name = name
                    ConfigStore.instance().store(row.name, node, "model", provider="vaswani_plugin")
        return model

    return register


def _set_unset_keys(family: Family, row: Architecture, args: argparse.Namespace) -> None:
    """Set a row's values where the command line gives none; refuse the other kind of task."""
    task = str(getattr(args, "task", None))
    others = ("translation", "parsing") if family.writes_texts else ("language_modeling",)
    if any(word in task for word in others):
        raise UserError(f"--arch {row.name}: not with --task {task}; give --task {family.task}")
    for key, value in row.changes.items():
        if getattr(args, key, None) is None:
            setattr(args, key, value)
