"""Language models that fairseq builds, with the interface of `inference.language_model`.

`interchange.language_model` calls this module for models that it can't load without fairseq.

Axes: B texts, T tokens, S scored tokens, V vocabulary.
"""

import sys
from pathlib import Path

import torch
from fairseq import checkpoint_utils, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import FairseqDecoder, FairseqLanguageModel
from omegaconf import open_dict
from torch import Tensor, nn

from vaswani_plugin import register
from vaswani_plugin.export.bundle import load_state
from vaswani_plugin.inference.engines import dtype_of
from vaswani_plugin.inference.language_bundle import LanguageFiles, TextTask
from vaswani_plugin.inference.language_model import LanguageModel
from vaswani_plugin.inference.transformer import projected_log_probabilities, select_rows
from vaswani_plugin.inference.untrusted import untrusted
from vaswani_plugin.modules.recurrent_language_model import RecurrentLanguageModel, States
from vaswani_plugin.text.dictionary import load_text_dictionary


def build_language_model(
    path: str | Path,
    data: str | Path | None = None,
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype | None = None,
    threads: int | None = None,
) -> LanguageModel:
    """Load any language model of fairseq's.

    Args:
        path: a bundle, or a checkpoint.
        data: with a checkpoint: the folder of its dictionary.
        device: where the model computes.
        dtype: type of its weights; None: as in the file.
        threads: PyTorch's threads on the CPU in each call; None: as many as PyTorch has now.

    Raises:
        ValueError: the model is no language model, or can't be used; names the file.
        OSError: a file can't be read.
    """
    files = LanguageFiles.find(Path(path), None if data is None else Path(data))
    register()
    with untrusted(files.checkpoint):
        state = load_state(files.checkpoint)
        cfg = state.get("cfg") or convert_namespace_to_omegaconf(state["args"])
        text_task = TextTask.of(cfg.task, files.checkpoint)
        dictionary = load_text_dictionary(files.folder)
        with open_dict(cfg.task):
            cfg.task.data = str(files.folder)
        task = tasks.setup_task(cfg.task, from_checkpoint=True)
        (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task(
            [str(files.checkpoint)], task=task, state=state
        )
        model = ForeignLanguageModel(model.to(device=device, dtype=dtype_of(dtype))).eval()
    return LanguageModel(model, dictionary, text_task, files.pipeline, threads)


class ForeignLanguageModel(nn.Module):
    """A language model of fairseq's with the interface that completion and scoring need.

    Args:
        model: any language model of fairseq's.
    """

    def __init__(self, model: FairseqLanguageModel) -> None:
        super().__init__()
        self.model = model

    @property
    def decoder(self) -> FairseqDecoder:
        """The model's decoder."""
        return self.model.decoder

    def forward(self, tokens: Tensor, src_lengths: Tensor | None = None) -> tuple:
        """The model's output for texts shifted right, (B, T); see `get_normalized_probs`."""
        return self.model(tokens, src_lengths=src_lengths)

    def get_normalized_probs(self, output: tuple, log_probs: bool) -> Tensor:
        """Probabilities, or log-probabilities, of each next token, (B, T, V)."""
        return self.model.get_normalized_probs(output, log_probs)

    def max_decoder_positions(self) -> int:
        """Longest text in tokens; a model without a limit, such as fconv_lm, takes any length."""
        return int(min(self.model.max_decoder_positions(), sys.maxsize))

    def log_probabilities(self, tokens: Tensor, scored: list[slice], targets: Tensor) -> Tensor:
        """See `inference.stream_scoring.ScoringModel`."""
        lengths = tokens.new_tensor([part.stop for part in scored])
        adaptive = self.decoder.adaptive_softmax
        if adaptive is not None:  # then fairseq's decoders return features
            features = self(tokens, lengths)[0]

            def project(x: Tensor) -> Tensor:
                return adaptive.get_log_prob(x[None], None)[0]
        elif self._has_features():
            features = self.decoder.extract_features(tokens, encoder_out=None)[0]
            project = self.decoder.output_layer
        else:
            log_p = self.get_normalized_probs(self(tokens, lengths), log_probs=True)
            return select_rows(log_p, scored).gather(-1, targets[:, None]).squeeze(-1)
        vocabulary = len(self.decoder.dictionary)
        return projected_log_probabilities(
            select_rows(features, scored), targets, project, vocabulary
        )

    @property
    def is_recurrent(self) -> bool:
        """Whether the model is our LSTM, which can go on from a state."""
        return isinstance(self.decoder, RecurrentLanguageModel)

    def continued_log_probabilities(
        self, tokens: Tensor, targets: Tensor, states: States | None
    ) -> tuple[Tensor, States]:
        """See `inference.stream_scoring.ScoringModel`; for a recurrent model."""
        features, states = self.decoder.read(tokens, states)
        vocabulary = len(self.decoder.dictionary)
        found = projected_log_probabilities(features[0], targets, self.decoder.project, vocabulary)
        return found, [(h.detach(), c.detach()) for h, c in states]

    def _has_features(self) -> bool:
        """Whether features can be computed alone and projected in parts, which saves memory."""
        own = type(self.decoder)
        return (
            own.extract_features is not FairseqDecoder.extract_features
            and own.output_layer is not FairseqDecoder.output_layer
        )
