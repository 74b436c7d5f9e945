"""Ensembles of encoder-decoders, ours and fairseq's, that score given targets.

fairseq is imported only where a checkpoint needs it.

Axes: B sources, S source length, R pairs, T target length, V vocabulary.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.export.foreign import unchanged_log_level
from vaswani_plugin.inference.bundle import ForeignModel
from vaswani_plugin.inference.checkpoint_models import load_with_data
from vaswani_plugin.inference.forced import ForcedModel, ForcedScorer, ForcedTransformer


class ForcedFairseqModel:
    """`inference.forced.ForcedModel` over an encoder-decoder of fairseq.

    Args:
        model: in evaluation mode.
        pad: number of the padding symbol of the source.
    """

    def __init__(self, model: Any, pad: int) -> None:
        self.model, self.pad = model, pad
        source, target = (int(min(length, sys.maxsize)) for length in model.max_positions())
        self.longest = source, target

    def token_log_probabilities(
        self, sources: Tensor, rows: Tensor, previous: Tensor, target: Tensor
    ) -> Tensor:
        """See `ForcedModel`; each source is encoded once."""
        encoder = self.model.encoder
        lengths = sources.ne(self.pad).sum(dim=1)
        encoder_out = encoder.forward_torchscript({"src_tokens": sources, "src_lengths": lengths})
        encoder_out = encoder.reorder_encoder_out(encoder_out, rows)
        output = self.model.decoder(previous, encoder_out=encoder_out)
        log_p = self.model.get_normalized_probs(output, log_probs=True)  # (R, T, V)
        return log_p.gather(2, target[:, :, None])[:, :, 0]


def load_scorer(paths: list[Path], data: Path, device: torch.device) -> ForcedScorer:
    """Load a model, or an ensemble of models with the same dictionaries.

    Args:
        paths: checkpoints.
        data: the folder of the dictionaries.
        device: where to compute.

    Returns:
        A scorer of given targets.

    Raises:
        ValueError: a checkpoint has no encoder-decoder, or was trained with other dictionaries.
        OSError: a file is missing or can't be read.
    """
    models: list[ForcedModel] = []
    source = target = None
    for path in paths:
        try:
            loaded, _ = load_with_data(path, data)
            source, target = loaded.source, loaded.target
            models.append(ForcedTransformer(loaded.model.to(device)))
        except ForeignModel:
            model, task = load_foreign(path, data)
            source, target = task.source_dictionary, task.target_dictionary
            models.append(ForcedFairseqModel(model.eval().to(device), source.pad()))
    return ForcedScorer(models, source, target, device)


def load_foreign(path: Path, data: Path) -> tuple[Any, Any]:
    """Load an encoder-decoder that fairseq builds, and its task.

    Args:
        path: the checkpoint.
        data: the folder of its dictionaries.

    Raises:
        ValueError: the checkpoint can't be used, or holds another kind of model; names it.
        OSError: it can't be read.
    """
    with unchanged_log_level():
        from vaswani_plugin.export import bundle

        model, task = bundle.load_with_data(path, data)
    if not hasattr(model, "encoder"):
        raise UserError(
            f"{path}: a {type(model).__name__} translates nothing; give a translation model"
        )
    return model, task
