"""fairseq's own models, and other plugins', as an engine of `Translator`."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from vaswani_plugin.errors import UserError
from vaswani_plugin.export.ensembles import ForcedFairseqModel
from vaswani_plugin.inference.attention import RawAttention
from vaswani_plugin.inference.bundle import Bundle
from vaswani_plugin.inference.engine import Decoded, Tokens
from vaswani_plugin.inference.forced import ForcedScorer
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
    from vaswani_plugin.export.bundle import FairseqBundle

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
