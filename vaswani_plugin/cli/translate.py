"""`vaswani translate`: from raw text to raw text with a bundle, line by line.

Every line gives one line, whatever it holds: an empty one stays empty, a line break can't come out.
"""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import torch
from tqdm import tqdm

from vaswani_plugin.cli._ctranslate2_engine import CTranslate2Engine
from vaswani_plugin.cli._engine import Engine, FairseqEngine, Hypothesis
from vaswani_plugin.cli._flags import add_processor, count, processor
from vaswani_plugin.cli._sentences import Sentence, in_buffers, read_sentences
from vaswani_plugin.interchange.bundle import Bundle
from vaswani_plugin.tasks.translation import PAPER_DECODING
from vaswani_text.corpus_io import open_binary
from vaswani_text.pipeline import MODEL, Pipeline

HELP = "translate raw text with a bundle (model, dictionaries, subword codes)"
EXAMPLE = "vaswani translate --model work/quickstart/model < raw.en > raw.de"
# Enough lines to make batches of like lengths, few enough to show results soon.
BUFFER = 1000
NOTHING = Hypothesis([], 0.0, [], [])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument("inputs", nargs="*", metavar="FILE", help="text, plain or .gz (default: -)")
    parser.add_argument(
        "--model", type=Path, required=True, metavar="DIR", help="a bundle, as the recipes make it"
    )
    parser.add_argument(
        "--engine",
        choices=["fairseq", "ctranslate2"],
        help="(default: ctranslate2 where the bundle is one of `vaswani export --to ctranslate2`)",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="(default: standard output)")
    parser.add_argument("--beam", type=count, help="width (default: that of the bundle, else 4)")
    parser.add_argument(
        "--nbest",
        type=count,
        default=1,
        metavar="N",
        help="give the N best of each line; as text, each as LINE <tab> SCORE <tab> TEXT",
    )
    parser.add_argument(
        "--lenpen",
        type=float,
        default=PAPER_DECODING["lenpen"],
        metavar="ALPHA",
        help="exponent of the length penalty ((5 + |Y|)/6) (default: %(default)s)",
    )
    parser.add_argument(
        "--format",
        choices=["text", "json"],
        default="text",
        help="json: an object a line with line, source and hypotheses (text, score, tokens, "
        "positional_scores, alignment); scores are natural logarithms, the last positional one "
        "is that of the end of sentence",
    )
    parser.add_argument(
        "--long",
        choices=["error", "split", "truncate"],
        default="error",
        help="what to do with a line of more subwords than the model takes (default: %(default)s, "
        "after the lines before it are written)",
    )
    parser.add_argument(
        "--buffer",
        type=count,
        metavar="N",
        help=f"lines to read before translating them (default: {BUFFER}; 1 on a terminal)",
    )
    parser.add_argument(
        "--batch-tokens",
        type=count,
        default=4096,
        metavar="N",
        help="source subwords translated at once, padding included (default: %(default)s)",
    )
    add_processor(parser)
    precision = parser.add_mutually_exclusive_group()
    precision.add_argument("--fp16", action="store_true", help="half precision (GPU only)")
    precision.add_argument("--bf16", action="store_true", help="bfloat16 (GPU only)")


def run(args: argparse.Namespace) -> int:
    """Translate; returns 0.

    Raises:
        ValueError: flags that don't fit, a bundle or a line that can't be used.
        OSError: a file can't be read or written.
    """
    bundle = Bundle.load(args.model)
    engine = make_engine(args, bundle)
    inputs = args.inputs or ["-"]
    buffer = args.buffer or (1 if inputs == ["-"] and sys.stdin.isatty() else BUFFER)
    sentences = read_sentences(inputs, bundle.pipeline, engine.longest, args.long)
    with opened(args.output) as write, progress(inputs, args.output) as bar:
        for batch in in_buffers(sentences, buffer):
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
    search = {
        "batch_tokens": args.batch_tokens,
        "align": args.format == "json",
        "beam": beam,
        "lenpen": args.lenpen,
    }
    is_exported = not (bundle.folder / MODEL).is_file()
    if args.engine == "ctranslate2" or (args.engine is None and is_exported):
        compute_type = "float16" if args.fp16 else "bfloat16" if args.bf16 else "default"
        threads = args.threads or 0
        return CTranslate2Engine(bundle.folder, device.type, compute_type, threads, **search)
    model, task = bundle.load_model()
    dtype = torch.float16 if args.fp16 else torch.bfloat16 if args.bf16 else torch.float32
    return FairseqEngine(model, task, device=device, dtype=dtype, **search)


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


@contextlib.contextmanager
def opened(output: Path | None) -> Iterator[Callable[[list[str]], None]]:
    """Gives a function that writes lines at once, to standard output or to a file.

    The file has its name when all is done; what was written before an error stays in FILE.part.
    A device or a pipe is written as it is.

    Raises:
        OSError: it can't be written; with its name.
        ValueError: one of the caller's, to which it adds where the lines before it are.
    """
    if output is None:
        yield lambda lines: _write(sys.stdout.buffer, "standard output", lines)
        return
    is_device = output.exists() and not output.is_file()  # a folder gives an error by itself
    partial = output if is_device else output.with_name(f"{output.name}.part")
    try:
        with open(partial, "wb") as stream:
            yield lambda lines: _write(stream, str(partial), lines)
    except Exception as error:
        if is_device or not partial.is_file():
            raise
        if partial.stat().st_size == 0:
            partial.unlink()
        elif isinstance(error, ValueError):
            raise ValueError(f"{error}; the lines before it are in {partial}") from error
        raise
    if not is_device:
        os.replace(partial, output)


def _write(stream: IO[bytes], name: str, lines: list[str]) -> None:
    try:
        stream.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
        stream.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from error


def progress(inputs: list[str], output: Path | None) -> tqdm:
    """A bar over the lines where somebody watches it and no translation would run into it."""
    watched = sys.stderr.isatty() and not (output is None and sys.stdout.isatty())
    total = sum(map(_count_lines, inputs)) if watched and "-" not in inputs else None
    return tqdm(total=total, unit=" lines", disable=not watched)


def _count_lines(path: str) -> int:
    with open_binary(path) as stream:
        return sum(1 for _ in stream)
