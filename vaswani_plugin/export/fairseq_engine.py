"""Encoder-decoders that fairseq builds, with their tasks, and the engine that runs them.

`inference.bundle` loads a Transformer of ours without fairseq.

Axes: B sources, S source length, R pairs, T target length, V vocabulary.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, tasks
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from fairseq.tasks.translation import TranslationTask
from omegaconf import OmegaConf, open_dict
from torch import Tensor

from vaswani_plugin import register
from vaswani_plugin.errors import UserError
from vaswani_plugin.export.stock_fairseq import checkpoint_of
from vaswani_plugin.inference.attention import RawAttention
from vaswani_plugin.inference.bundle import Bundle
from vaswani_plugin.inference.checkpoints import load_checkpoint, untrusted
from vaswani_plugin.inference.engine import Decoded, Tokens
from vaswani_plugin.inference.forced import ForcedScorer
from vaswani_plugin.inference.safetensors_file import updates_of
from vaswani_plugin.inference.search_engine import (
    encode_pair,
    make_decoded,
    make_prefix,
    score_pairs,
    source_rows,
)
from vaswani_plugin.inference.threads import use_threads
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.text.fork_lock import ForkLock
from vaswani_plugin.text.settings import CONFIG, MODEL, weights_path


class FairseqBundle(Bundle):
    """A bundle whose model fairseq builds, of any encoder-decoder architecture."""

    def load_model(self) -> tuple[BaseFairseqModel, TranslationTask]:
        """The model on the CPU, and the task that decodes with it as the paper does.

        The task is ours, also for a model that fairseq's own translation task trained.

        Raises:
            ValueError: the checkpoint can't be used, or was trained with other dictionaries.
            OSError: the checkpoint can't be read.
        """
        register()
        with untrusted(weights_path(self.folder)):
            return self._load_model()

    def _load_model(self) -> tuple[BaseFairseqModel, TranslationTask]:
        path = weights_path(self.folder)
        state = load_state(path)
        task_cfg = state["cfg"].task
        self.require_task(task_cfg._name)
        with open_dict(task_cfg):
            task_cfg._name = self.tasks[0]
            task_cfg.data = str(self.folder)
            task_cfg.source_lang, task_cfg.target_lang = self.languages
            task_cfg.length_penalty = "paper"
            task_cfg.eval_bleu = False
        task = tasks.setup_task(task_cfg, from_checkpoint=True)
        (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task(
            [str(path)], task=task, state=state
        )
        return model.eval(), task


def load_state(path: Path) -> dict[str, Any]:
    """Load a checkpoint as fairseq does; a `.safetensors` file is converted to one.

    Args:
        path: a checkpoint of fairseq's, or a bundle's `.safetensors` file.

    Raises:
        ValueError: the file can't be used.
        OSError: it can't be read.
    """
    if path.suffix != ".safetensors":
        return checkpoint_utils.load_checkpoint_to_cpu(str(path))
    stored = load_checkpoint(path)
    cfg = stored["cfg"]
    if "_name" not in cfg["model"]:
        raise ValueError(f"{path} is no model that fairseq builds from {CONFIG}: keep {MODEL}")
    state = checkpoint_of(
        *(stored["model"], cfg["model"], cfg["task"], updates_of(stored) or 0, stored["task_state"])
    )
    return {**state, "cfg": OmegaConf.create(state["cfg"])}


def load_with_data(path: Path, data: Path) -> tuple[BaseFairseqModel, FairseqTask]:
    """Load a checkpoint's model onto the CPU, and its task with the dictionaries of a folder.

    Args:
        path: the checkpoint.
        data: the folder of the dictionaries.

    Returns:
        Model and task.

    Raises:
        FileNotFoundError: the file or the folder is missing.
        ValueError: no model can be built from them; names the file.
    """
    for needed in (path, data):
        if not needed.exists():
            raise FileNotFoundError(f"{needed} does not exist")
    register()
    with untrusted(path):
        (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
            [str(path)], arg_overrides={"data": str(data)}
        )
    return model, task


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


def build_engine(
    bundle: Bundle, device: torch.device, dtype: torch.dtype | None, threads: int | None
) -> "FairseqEngine":
    """Build the engine of a bundle with fairseq.

    Args:
        bundle: the bundle.
        device: where to decode.
        dtype: type of the weights; None leaves them as they are.
        threads: of PyTorch on the CPU, for each call; None: as many as PyTorch has now.

    Raises:
        ModuleNotFoundError: fairseq is not installed.
        ValueError: the model can't be used.
        OSError: it can't be read.
    """

    model, task = FairseqBundle(bundle.folder, bundle.pipeline).load_model()
    return FairseqEngine(model, task, device, dtype, threads)


class FairseqEngine:
    """An `inference.engine.Engine` that calls a task's generator as `fairseq-interactive` does.

    Args:
        model: an encoder-decoder of fairseq's.
        task: builds the generator and knows the dictionaries.
        device: where to decode.
        dtype: type of the weights; None leaves them as they are.
        threads: of PyTorch on the CPU, for each call; None: as many as PyTorch has now.
    """

    def __init__(
        self,
        model: Any,
        task: Any,
        device: torch.device,
        dtype: torch.dtype | None = None,
        threads: int | None = None,
    ) -> None:
        self.threads = threads or torch.get_num_threads()
        self.model = model.to(device=device, dtype=dtype)
        self.model.prepare_for_inference_(argparse.Namespace(generation=argparse.Namespace(beam=1)))
        self.task, self.device = task, device
        forced = ForcedFairseqModel(self.model, task.source_dictionary.pad())
        self.longest_source, self.longest_target = (length - 1 for length in forced.longest)
        dictionaries = task.source_dictionary, task.target_dictionary
        self.forced = ForcedScorer([forced], *dictionaries, device)
        # The task sets whether the model returns attention, so only one search runs at a time.
        self._lock = ForkLock()
        self._generators: dict[SearchOptions, Any] = {}  # holds the latest one only

    def decode(
        self,
        sources: Sequence[Tokens],
        options: SearchOptions,
        prefixes: Sequence[Tokens] | None = None,
        seed: int | None = None,
    ) -> list[list[Decoded]]:
        """See `Engine`.

        Raises:
            UserError: options contradict each other, a prefix is too long, or a batch doesn't fit
                into the GPU's memory.
        """
        use_threads(self.threads)
        target = self.task.target_dictionary
        own = self.task.source_dictionary
        rows = source_rows(sources, own, self.device)
        inputs = {"src_tokens": rows, "src_lengths": rows.ne(own.pad()).sum(dim=1)}
        prefix = None if prefixes is None else make_prefix(prefixes, target, self.device)
        with self._lock, torch.random.fork_rng(enabled=seed is not None):
            if seed is not None:
                torch.manual_seed(seed)
            found = self.task.inference_step(
                *(self._generator(options), [self.model], {"net_input": inputs}),
                prefix_tokens=prefix,
            )
        return [[make_decoded(h, target) for h in hypotheses] for hypotheses in found]

    def score(
        self, sources: Sequence[Tokens], targets: Sequence[Tokens]
    ) -> list[tuple[float, ...]]:
        """See `Engine`."""
        use_threads(self.threads)
        with self._lock:
            return score_pairs(self.forced, sources, targets)

    def attention(self, source: Tokens, target: Tokens) -> RawAttention:
        """See `Engine`.

        Raises:
            UserError: the model is not one of ours, or has no attention.
        """
        if not hasattr(self.model, "attention_weights"):
            raise UserError(
                f"a {type(self.model).__name__} has no per-head weights to show; give a "
                "translation model of this plugin that has attention (vaswani import takes "
                "fairseq's Transformer)"
            )
        use_threads(self.threads)
        ids = encode_pair(source, target, self.task.source_dictionary, self.task.target_dictionary)
        pair = (torch.tensor([row], device=self.device) for row in (ids.source, ids.read))
        with self._lock:
            found = self.model.attention_weights(*pair)
        weights = {k: torch.cat(layers).float().cpu().numpy() for k, layers in found.items()}
        return RawAttention(weights, ids.unknown)

    def _generator(self, options: SearchOptions) -> Any:
        if options not in self._generators:
            given = {k: v for k, v in asdict(options).items() if k != "length_penalty"}
            generator = self.task.build_generator([self.model], argparse.Namespace(**given))
            self._generators = {options: generator}
        return self._generators[options]
