"""Loads translators for every model that fairseq builds: ours, its own, and other plugins'.

fairseq is imported only if a bundle needs it.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any

import torch

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.attention import RawAttention
from vaswani_plugin.inference.bundle import Bundle, ForeignModel
from vaswani_plugin.inference.engine import (
    Decoded,
    Tokens,
    encode_pair,
    make_decoded,
    make_prefix,
    make_sample,
    memory_errors_explained,
    score_pairs,
)
from vaswani_plugin.inference.forced import ForcedScorer
from vaswani_plugin.inference.translator import Translator
from vaswani_plugin.interchange.ensembles import (
    ForcedFairseqModel,
    load_foreign,
    unchanged_log_level,
)
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.text.pipeline import Pipeline


def load_translator(folder: str | Path, **options: Any) -> Translator:
    """`Translator.from_pretrained` that also loads models which only fairseq can build.

    Args:
        folder: the bundle.
        options: as for `Translator.from_pretrained`.

    Raises:
        ValueError: the folder is not a bundle of a translation model, or needs fairseq, which is
            missing.
        OSError: a file can't be read.
    """
    return Translator.from_pretrained(folder, build_foreign=build_engine, **options)


def load_checkpoint_translator(
    path: Path, data: Path, codes: Path | None = None, device: torch.device | str = "cpu"
) -> Translator:
    """`Translator.from_checkpoint` that also loads models which only fairseq can build.

    Args:
        path: the checkpoint.
        data: the folder of its dictionaries.
        codes: BPE codes of subword-nmt, to split the text with; None: it is split already.
        device: where to decode.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file can't be used, or the model is no translation model; names it.
    """
    if codes is not None and not codes.exists():
        raise FileNotFoundError(f"{codes} does not exist")
    try:
        return Translator.from_checkpoint(path, data, codes, device=device)
    except ForeignModel:
        model, task = load_foreign(path, data)
    engine = FairseqEngine(model.eval(), task, torch.device(device))
    languages = task.cfg.source_lang, task.cfg.target_lang
    return Translator(Pipeline.of_tokens(languages, codes), engine)


def build_engine(
    bundle: Bundle, device: torch.device, dtype: torch.dtype | None
) -> "FairseqEngine":
    """Build the engine of a bundle with fairseq.

    Args:
        bundle: the bundle.
        device: where to decode.
        dtype: type of the weights; None leaves them as they are.

    Raises:
        ModuleNotFoundError: fairseq is not installed.
        ValueError: the model can't be used.
        OSError: it can't be read.
    """
    with unchanged_log_level():
        from vaswani_plugin.interchange.bundle import FairseqBundle

        model, task = FairseqBundle(bundle.folder, bundle.pipeline).load_model()
    return FairseqEngine(model, task, device, dtype)


class FairseqEngine:
    """An `inference.engine.Engine` that calls a task's generator as `fairseq-interactive` does.

    Args:
        model: an encoder-decoder of fairseq's.
        task: builds the generator and knows the dictionaries.
        device: where to decode.
        dtype: type of the weights; None leaves them as they are.
    """

    def __init__(
        self, model: Any, task: Any, device: torch.device, dtype: torch.dtype | None = None
    ) -> None:
        self.model = model.to(device=device, dtype=dtype)
        self.model.prepare_for_inference_(argparse.Namespace(generation=argparse.Namespace(beam=1)))
        self.task, self.device = task, device
        forced = ForcedFairseqModel(self.model, task.source_dictionary.pad())
        self.longest_source, self.longest_target = (length - 1 for length in forced.longest)
        dictionaries = task.source_dictionary, task.target_dictionary
        self.forced = ForcedScorer([forced], *dictionaries, device)
        # The task sets whether the model returns attention, so only one search runs at a time.
        self._lock = Lock()
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
        target = self.task.target_dictionary
        sample = make_sample(sources, self.task.source_dictionary, self.device)
        prefix = None if prefixes is None else make_prefix(prefixes, target, self.device)
        with self._lock, torch.random.fork_rng(enabled=seed is not None):
            if seed is not None:
                torch.manual_seed(seed)
            with memory_errors_explained(sample):
                found = self.task.inference_step(
                    self._generator(options), [self.model], sample, prefix_tokens=prefix
                )
        return [[make_decoded(h, target) for h in hypotheses] for hypotheses in found]

    def score(
        self, sources: Sequence[Tokens], targets: Sequence[Tokens]
    ) -> list[tuple[float, ...]]:
        """See `Engine`."""
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
