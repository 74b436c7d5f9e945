"""What `vaswani translate` does once its flags are read: bundle, engine, lines in and out."""

import argparse
import json
from collections.abc import Iterator
from typing import Any

import torch

from vaswani_plugin.cli._engine import Engine, Hypothesis, SearchEngine
from vaswani_plugin.cli._flags import processor
from vaswani_plugin.cli._lines import buffer_size, opened, progress
from vaswani_plugin.cli._sentences import Sentence, in_buffers, read_sentences
from vaswani_plugin.cli._start import start_fairseq
from vaswani_plugin.decoding import PAPER_DECODING
from vaswani_plugin.inference.bundle import Bundle, ForeignModel
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import weights_path

NOTHING = Hypothesis([], 0.0, [], [])


def run(args: argparse.Namespace) -> int:
    """Translate; returns 0.

    Raises:
        ValueError: flags that don't fit, a bundle or a line that can't be used.
        OSError: a file can't be read or written.
    """
    bundle = Bundle.load(args.model)
    engine = make_engine(args, bundle)
    inputs = args.inputs or ["-"]
    sentences = read_sentences(inputs, bundle.pipeline, engine.longest, args.long)
    with opened(args.output) as write, progress(inputs, args.output) as bar:
        for batch in in_buffers(sentences, buffer_size(args, inputs)):
            write(list(translate(batch, engine, bundle.pipeline, args.nbest, args.format)))
            bar.update(len(batch))
    return 0


def make_engine(args: argparse.Namespace, bundle: Bundle) -> Engine:
    """The engine that the flags ask for.

    Raises:
        ValueError: flags that don't fit together, a model that can't be used.
        OSError: it can't be read.
    """
    beam = args.beam or bundle.pipeline.settings.beam or PAPER_DECODING["beam"]
    if args.nbest > beam:
        raise ValueError(f"--nbest {args.nbest}: a beam of {beam} finds no more than {beam}")
    device = processor(args)
    if (args.fp16 or args.bf16) and device.type != "cuda":
        flag = "--fp16" if args.fp16 else "--bf16"
        raise ValueError(f"{flag} is for a GPU; leave it out on the CPU")
    is_exported = not weights_path(bundle.folder).is_file()
    if args.engine == "ctranslate2" or (args.engine is None and is_exported):
        from vaswani_plugin.cli._ctranslate2_engine import CTranslate2Engine  # knows fairseq

        compute_type = "float16" if args.fp16 else "bfloat16" if args.bf16 else "default"
        return CTranslate2Engine(
            bundle.folder, device.type, compute_type, args.threads or 0, **search_flags(args, beam)
        )
    dtype = torch.float16 if args.fp16 else torch.bfloat16 if args.bf16 else torch.float32
    try:
        loaded = bundle.load_transformer()
    except ForeignModel as foreign:
        options = {"device": device, "dtype": dtype, **search_flags(args, beam)}
        try:
            return fairseq_engine(bundle, **options)
        except ModuleNotFoundError as error:
            raise ValueError(f"{foreign}, and fairseq can't be imported ({error})") from error
    alignment = "hard" if args.format == "json" else None
    given = {"beam": beam, "lenpen": args.lenpen, "print_alignment": alignment}
    options = SearchOptions(**{**PAPER_DECODING, **given})
    return SearchEngine(loaded, options, device, dtype, args.batch_tokens)


def search_flags(args: argparse.Namespace, beam: int) -> dict[str, Any]:
    """What the engines beside ours are told of the search."""
    return {
        "batch_tokens": args.batch_tokens,
        "align": args.format == "json",
        "beam": beam,
        "lenpen": args.lenpen,
    }


def fairseq_engine(bundle: Bundle, **options: Any) -> Engine:
    """The engine for a model that only fairseq can build.

    Raises:
        ModuleNotFoundError: fairseq is not installed.
        ValueError: the model can't be used.
        OSError: it can't be read.
    """
    start_fairseq()
    from vaswani_plugin.cli._fairseq_engine import FairseqEngine
    from vaswani_plugin.interchange.bundle import FairseqBundle

    model, task = FairseqBundle(bundle.folder, bundle.pipeline).load_model()
    return FairseqEngine(model, task, **options)


def translate(
    sentences: list[Sentence], engine: Engine, pipeline: Pipeline, nbest: int, form: str
) -> Iterator[str]:
    """The output lines of a buffer, in order: one a sentence, `nbest` of them as text above 1."""
    pieces = [piece for sentence in sentences for piece in sentence.pieces]
    translated = iter(engine.translate(pieces) if pieces else [])
    for sentence in sentences:
        found = [next(translated) for _ in sentence.pieces]
        hypotheses = join(found, [len(piece.split()) for piece in sentence.pieces])[:nbest]
        texts = [pipeline.decode(" ".join(hypothesis.tokens)) for hypothesis in hypotheses]
        if form == "json":
            yield as_json(sentence, hypotheses, texts)
        elif nbest == 1:
            yield texts[0]
        else:
            for hypothesis, text in zip(hypotheses, texts, strict=True):
                yield f"{sentence.number}\t{hypothesis.score:.6f}\t{text}"


def join(found: list[list[Hypothesis]], lengths: list[int]) -> list[Hypothesis]:
    """The hypotheses of a whole line out of those of its pieces: best with best, and so on.

    Args:
        found: hypotheses of each piece; no piece at all gives the empty translation.
        lengths: source subwords of each piece.

    Returns:
        Tokens and positional scores one after another, the sum of the scores, and alignments
        counted from the line's first subword.
    """
    if not found:
        return [NOTHING]
    whole = list(found[0])
    source_start = 0
    for length, piece in zip(lengths, found[1:], strict=False):
        source_start += length
        whole = [
            Hypothesis(
                first.tokens + second.tokens,
                first.score + second.score,
                first.positional_scores + second.positional_scores,
                first.alignment
                + [(s + source_start, t + len(first.tokens)) for s, t in second.alignment],
            )
            for first, second in zip(whole, piece, strict=False)
        ]
    return whole


def as_json(sentence: Sentence, hypotheses: list[Hypothesis], texts: list[str]) -> str:
    """One line of --format json."""
    entries = [
        {
            "text": text,
            "score": hypothesis.score,
            "tokens": hypothesis.tokens,
            "positional_scores": hypothesis.positional_scores,
            "alignment": hypothesis.alignment,
        }
        for hypothesis, text in zip(hypotheses, texts, strict=True)
    ]
    return json.dumps({"line": sentence.number, "source": sentence.source, "hypotheses": entries})
