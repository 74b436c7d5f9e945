"""Sentences a second of our search and of CTranslate2, without start-up; run by decoding.sh."""

import argparse
import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from measurement import ROOT, Command, measure

from vaswani_plugin import processor
from vaswani_plugin.decoding import PAPER_DECODING
from vaswani_plugin.errors import UserError, run
from vaswani_plugin.inference.batching import batches_by_length
from vaswani_plugin.text.lines import read_lines
from vaswani_plugin.text.outputs import write_json

CTRANSLATE2 = "ctranslate2-float32"
MODES = ("batch", "one")

Batch = list[list[str]]
Decode = Callable[[Batch], list[int]]
"""Decodes a batch of sentences; returns the number of subwords of each output."""


def our_search(args: argparse.Namespace, dtype: str) -> Decode:
    """Our search over the bundle."""
    from vaswani_plugin import Translator
    from vaswani_plugin.search.options import SearchOptions

    engine = Translator.from_pretrained(args.model, threads=args.threads, dtype=dtype).engine
    options = SearchOptions(
        beam=args.beam,
        lenpen=PAPER_DECODING["lenpen"],
        max_len_a=0,
        max_len_b=args.output_length,
        min_len=args.output_length,
    )
    return lambda batch: [len(best.tokens) for best, *_ in engine.decode(batch, options)]


def ctranslate2_search(args: argparse.Namespace) -> Decode:
    """CTranslate2's own search over the export, in a process that doesn't import torch."""
    from vaswani_plugin.inference.ctranslate2_engine import import_ctranslate2

    translator = import_ctranslate2().Translator(
        str(export_of(args)), device="cpu", inter_threads=1, intra_threads=args.threads
    )
    options = {
        "beam_size": args.beam,
        "length_penalty": PAPER_DECODING["lenpen"],
        "max_decoding_length": args.output_length,
        "min_decoding_length": args.output_length,
    }
    return lambda batch: [
        len(result.hypotheses[0]) for result in translator.translate_batch(batch, **options)
    ]


def export_of(args: argparse.Namespace) -> Path:
    """The folder of the export."""
    return args.work / "decoding-ctranslate2"


def batches_of(args: argparse.Namespace) -> dict[str, list[Batch]]:
    """The subwords of the first sentences, in batches and one at a time."""
    from vaswani_plugin.inference.bundle import Bundle
    from vaswani_plugin.inference.sources import encode

    pipeline = Bundle.load(args.model).pipeline
    split = [list(encode(line, pipeline)) for line in read_lines(args.lines)]
    found = [tokens for tokens in split if tokens][: args.sentences]
    if len(found) < args.sentences:
        raise UserError(f"{args.lines}: {len(found)} sentences; give --sentences {len(found)}")
    grouped = batches_by_length([len(tokens) + 1 for tokens in found], args.batch_tokens)
    batches = {"batch": [[found[n] for n in group] for group in grouped]}
    if args.single:
        batches["one"] = [[tokens] for tokens in found[: args.single]]
    return batches


def measure_engine(args: argparse.Namespace) -> dict[str, float]:
    """Sentences a second of one engine in this process, after a run that is not counted."""
    name = args.engine
    decode = (
        ctranslate2_search(args)
        if name == CTRANSLATE2
        else our_search(args, name.removeprefix("ours-"))
    )
    speeds = {}
    for mode, batches in batches_of(args).items():
        for _ in range(2):
            start = time.perf_counter()
            lengths = [length for batch in batches for length in decode(batch)]
            speeds[mode] = len(lengths) / (time.perf_counter() - start)
        if set(lengths) != {args.output_length}:
            raise UserError(f"{name}: outputs of {min(lengths)} to {max(lengths)} subwords")
    return speeds


def compare(args: argparse.Namespace) -> dict[str, dict]:
    """Run the engines in turn, each in a process of its own."""
    names = [CTRANSLATE2, "ours-float32", *(["ours-bfloat16"] if processor.has_bfloat16() else [])]
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for number in range(args.repeats):
        for name, own in runs.items():
            output = args.work / f"{name}.json"
            arguments = [sys.executable, __file__, *sys.argv[1:], "--engine", name]
            measure(0, [Command(arguments, stdout=output)])
            own.append(json.loads(output.read_text(encoding="utf-8")))
        print(f"decoding: run {number + 1} of {args.repeats}", file=sys.stderr, flush=True)
    return {mode: summary(runs, mode) for mode in MODES if mode in runs[CTRANSLATE2][0]}


def summary(runs: dict[str, list[dict[str, float]]], mode: str) -> dict[str, dict]:
    """Median, lowest and highest speed of each engine, and its ratio to CTranslate2's median."""
    speeds = {name: sorted(run[mode] for run in own) for name, own in runs.items()}
    reference = statistics.median(speeds[CTRANSLATE2])
    return {
        name: {
            "sentences_per_second": round(statistics.median(own), 2),
            "spread": [round(own[0], 2), round(own[-1], 2)],
            "times_ctranslate2": round(statistics.median(own) / reference, 2),
        }
        for name, own in speeds.items()
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="decoding.sh", description=__doc__)
    add = parser.add_argument
    add("--model", type=Path, required=True, help="a bundle of our Transformer, trained or not")
    add("--lines", type=Path, required=True, help="raw source text, a sentence a line")
    add("--work", type=Path, default=ROOT / "work" / "decoding", help="folder of the results")
    add("--sentences", type=int, default=96, help="decode the first N in batches (default: 96)")
    single = "and the first N of these one at a time; 0: none (default: 16)"
    add("--single", type=int, default=16, metavar="N", help=single)
    add("--output-length", type=int, default=20, help="subwords of an output (default: 20)")
    add("--batch-tokens", type=int, default=4096, help="source subwords of a batch (default: 4096)")
    add("--beam", type=int, default=4, help="beam size (default: 4)")
    add("--threads", type=int, default=2, help="of the CPU (default: 2)")
    add("--repeats", type=int, default=3, help="runs of each engine (default: 3)")
    add("--engine", help=argparse.SUPPRESS)  # a process of one engine, started by this script
    args = parser.parse_args()
    if args.engine:
        print(json.dumps(measure_engine(args)))
        return
    args.work.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(export_of(args), ignore_errors=True)  # of an earlier run
    export = [Path(sys.executable).parent / "vaswani", "export", "--to", "ctranslate2"]
    measure(0, [Command([*export, "--model", args.model, "--output", export_of(args)])])
    report = {"processor": processor.description(), "threads": args.threads, "beam": args.beam}
    report |= {"sentences": args.sentences, "output_length": args.output_length} | compare(args)
    write_json(args.work / "result.json", report)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    run(main)
