"""A model that `vaswani export --to ctranslate2` wrote, run by CTranslate2.

CTranslate2 extends the beams as the paper's search does, by the 2 W best candidates of each step.
By itself it ends a sentence after W finished hypotheses and ranks them by log P / |Y|^alpha. Here
it goes on until PATIENCE times as many are finished and returns them all with their log P. This
module ranks them by the paper's length penalty.

Axes: W beam width, T target tokens with the end of sentence, S source subwords.
"""

import ctypes
import os
import platform
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakSet

import numpy as np

from vaswani_plugin.errors import UserError, optional
from vaswani_plugin.files.lines import read_json
from vaswani_plugin.inference.attention import RawAttention
from vaswani_plugin.inference.runner import Hypothesis, Tokens
from vaswani_plugin.processor import instructions
from vaswani_plugin.search.options import PAPER_DECODING, SearchOptions, length_penalty
from vaswani_plugin.text.settings import CONFIG

PATIENCE = 2
# CTranslate2 divides log P by |Y| to this power, in effect by 1. With an exponent of 0 it would
# stop at the first good hypothesis.
NO_PENALTY = 1e-30
START, END, UNKNOWN = "<s>", "</s>", "<unk>"
PADDING = "<blank>"
"""CTranslate2's name for padding, as in the models of its own fairseq converter."""
INT8_FITS = "int8_fits_16_bits"
"""Key of config.json: true where int8 weights never overflow sums of two products in 16 bits."""
LOADED: "WeakSet[CTranslate2Engine]" = WeakSet()
KNOWN_OPTIONS = {"beam", "nbest", "lenpen", "print_alignment"}
"""Options of the search that may differ from the paper's."""


def has_vnni() -> bool:
    """Return whether the processor is known to add products of bytes in 32 bits.

    Without it, libraries for x86 add two products in 16 bits, which may overflow.
    """
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    return not is_x86 or not instructions().isdisjoint(("avx512_vnni", "avx_vnni"))


def import_ctranslate2() -> ModuleType:
    """Import CTranslate2, an optional dependency.

    On processors with AVX2 but without VNNI it uses MKL, also on AMD. CT2_USE_MKL=0 turns that off;
    CTranslate2 reads the variable when it is imported.
    """
    if "avx2" in instructions() and not has_vnni():
        os.environ.setdefault("CT2_USE_MKL", "1")
    return optional("ctranslate2", "ctranslate2")


def has_gpu() -> bool:
    """Return whether CTranslate2 finds a GPU; for errors see `import_ctranslate2`."""
    return bool(import_ctranslate2().get_cuda_device_count())


class CTranslate2Engine:
    """Our `Engine` over CTranslate2, of a folder that `vaswani export --to ctranslate2` wrote.

    The device is "cpu", "cuda" or "cuda:N". With the type "default" it computes as the model is
    stored; 0 threads leave their number to CTranslate2.
    """

    def __init__(self, folder: Path, device: str, compute_type: str, threads: int) -> None:
        ctranslate2 = import_ctranslate2()
        config = read_json(folder / CONFIG, "export the model again")
        device_type, _, number = device.partition(":")
        place = {"device": device_type, "device_index": int(number or 0), "intra_threads": threads}
        self._load = partial(ctranslate2.Translator, str(folder.resolve()), **place)
        self._type, self._translator = compute_type, None
        LOADED.add(self)
        in_bytes = self.translator.compute_type.startswith("int8") and device_type == "cpu"
        if in_bytes and not config.get(INT8_FITS) and not has_vnni():
            # Sums of two products of bytes would overflow.
            advice = "export it again with --quantization int8"
            if compute_type != "default":
                raise UserError(f"without VNNI, as here, int8 of {folder} overflows: {advice}")
            warnings.warn(
                f"{folder} is computed in float32, because this processor has no VNNI: {advice}",
                stacklevel=2,
            )
            self._type, self._translator = "float32", None
        self.longest_source = config["max_source_positions"] - 1
        self.longest_target: int = config["max_target_positions"] - 1

    @property
    def translator(self) -> Any:
        """CTranslate2's object; it is loaded here where there is none yet."""
        self._translator = self._translator or self._load(compute_type=self._type)
        return self._translator

    def decode(
        self, sources: Sequence[Tokens], options: SearchOptions, seed: int | None = None
    ) -> list[list[Hypothesis]]:
        """See `Engine`. Token scores are given only together with alignments."""
        chosen, usual = asdict(options), asdict(SearchOptions(**PAPER_DECODING))
        strange = [k for k in chosen if chosen[k] != usual[k] and k not in KNOWN_OPTIONS]
        if strange:
            raise UserError(f"the CTranslate2 engine has no {strange[0]}: use the exported bundle")
        return self._decode(_without_padding(sources), options)

    def score(
        self, sources: Sequence[Tokens], targets: Sequence[Tokens]
    ) -> list[tuple[float, ...]]:
        """See `Engine`."""
        pairs = _without_padding(sources), _without_padding(targets)
        scored = self.translator.score_batch(*pairs, max_input_length=0)
        return [tuple(result.log_probs) for result in scored]

    def attention(self, source: Tokens, target: Tokens) -> RawAttention:
        """See `Engine`: there are none to show."""
        raise UserError("CTranslate2 gives no per-head weights: use the bundle it was made of")

    def _limit(self, source: list[str]) -> int:
        """Most target tokens of a source, the end of sentence included (section 6.1)."""
        limit = PAPER_DECODING["max_len_a"] * (len(source) + 1) + PAPER_DECODING["max_len_b"]
        return min(int(limit), self.longest_target) + 1

    def _decode(
        self, sources: list[list[str]], options: SearchOptions, forbid: bool = False
    ) -> list[list[Hypothesis]]:
        """Hypotheses of a batch, without those that are empty or hold padding.

        CTranslate2 would also remove forbidden tokens from the softmax, unlike our search: only a
        sentence of which no output remains is decoded again, with both forbidden, and scored anew.
        """
        # Greedy search has no use for patience: all hypotheses would be the same.
        patience = PATIENCE if options.beam > 1 else 1
        # In a batch with beams, CTranslate2 4.8 gives first words the attention of other sentences.
        align = options.print_alignment is not None
        results = self.translator.translate_batch(
            sources,
            beam_size=options.beam,
            patience=patience,
            num_hypotheses=options.beam * patience,
            length_penalty=NO_PENALTY,
            max_input_length=0,
            max_decoding_length=max(map(self._limit, sources)),
            min_decoding_length=1 if forbid else 0,
            suppress_sequences=[[PADDING]] if forbid else None,
            return_scores=not forbid,
            return_end_token=True,
            return_attention=align,
            max_batch_size=1 if align else 0,
        )
        return [
            self._ranked(source, result, options) or self._decode([source], options, forbid=True)[0]
            for source, result in zip(sources, results, strict=True)
        ]

    def _ranked(self, source: list[str], result: Any, options: SearchOptions) -> list[Hypothesis]:
        """The W best hypotheses by the paper's score; fewer where CTranslate2 found fewer."""
        limit, every = self._limit(source), enumerate(result.hypotheses)
        usable = [(n, tokens) for n, tokens in every if tokens != [END] and PADDING not in tokens]
        ended = [(n, t) for n, t in usable if t[-1] == END and len(t) <= limit]
        # Where no hypothesis is finished, end it at the limit, as our search does.
        outputs = [(n, t[:-1]) for n, t in ended] or [(n, t[: limit - 1]) for n, t in usable]
        if ended and result.scores:
            totals = [result.scores[n] for n, _ in ended]
        else:
            totals = list(map(sum, self._token_scores(source, [each for _, each in outputs])))
        scored = [
            (total / length_penalty(len(tokens) + 1, options.lenpen), n, tokens)
            for (n, tokens), total in zip(outputs, totals, strict=True)
        ]
        best = sorted(scored, key=lambda each: -each[0])[: options.beam]
        positional: list[list[float]] = [[] for _ in best]
        alignments: list[list[tuple[int, int]]] = [[] for _ in best]
        if options.print_alignment is not None:
            positional = self._token_scores(source, [tokens for *_, tokens in best])
            # For each target token the source token that it attends to most.
            sources_of = (np.argmax(result.attention[n][: len(t)], axis=1) for _, n, t in best)
            alignments = [[(int(s), t) for t, s in enumerate(row)] for row in sources_of]
        # fairseq prints no start of sentence, wherever it is.
        return [
            Hypothesis(
                "", score, tuple(t for t in tokens if t != START), tuple(log_p), tuple(links)
            )
            for (score, _, tokens), log_p, links in zip(best, positional, alignments, strict=True)
        ]

    def _token_scores(self, source: list[str], outputs: list[list[str]]) -> list[list[float]]:
        """log P of each token of the outputs, and of the end of sentence after them."""
        scored = self.translator.score_batch([source] * len(outputs), outputs, max_input_length=0)
        return [result.log_probs for result in scored]


def _forget_in_child() -> None:
    """Let a forked child load its models again; the old objects would wait for their threads."""
    for engine in LOADED:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine._translator))
        engine._load = partial(engine._load, intra_threads=1)
        engine._translator = None


os.register_at_fork(after_in_child=_forget_in_child)


def _without_padding(lines: Sequence[Tokens]) -> list[list[str]]:
    """Replace the word "<blank>" by <unk>: a text may hold it, but here it is the padding."""
    return [[UNKNOWN if token == PADDING else token for token in line] for line in lines]
