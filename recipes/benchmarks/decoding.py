"""Speed of decoding: ours beside stock fairseq and CTranslate2; run by decoding.sh.

First whole processes: `fairseq-generate` with the stock model, without the plugin, and with ours,
and, with --bundle, `vaswani translate` from raw text to raw text. Then the search alone, without
start-up. The engines take turns, each in its own process. All search by fairseq's rules, with its
penalty |Y|^0.6, but for `vaswani translate`, by the paper's; CTranslate2 ends by a rule of its own.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from measurement import ROOT, Measurement, measure
from training import spread

from vaswani_plugin import processor
from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import read_lines
from vaswani_plugin.files.outputs import write_json
from vaswani_plugin.files.programs import run
from vaswani_plugin.inference.runner import batches_by_length

BIN = Path(sys.executable).parent
LENPEN = 0.6
Decode = Callable[[list[list[str]]], list[int]]
"""Decodes a batch of sentences; returns the number of subwords of each output."""


def take_sentences(args: argparse.Namespace) -> list[str]:
    """The first sentences of the subset in subwords: WORK/sources, and WORK/data-bin's test set."""
    from fairseq.data import Dictionary, indexed_dataset

    folder = args.work / "data-bin"
    folder.mkdir(parents=True, exist_ok=True)
    prefix = next(args.data_bin.glob(f"{args.subset}.*.idx"), None)
    if prefix is None:
        raise UserError(f"--data-bin {args.data_bin}: no {args.subset} set there")
    source, target = prefix.name.split(".")[1].split("-")
    for language in (source, target):
        shutil.copy(args.data_bin / f"dict.{language}.txt", folder)
    name = f"{source}-{target}.{source}"
    stored = indexed_dataset.make_dataset(str(args.data_bin / f"{args.subset}.{name}"), "mmap")
    dictionary = Dictionary.load(str(folder / f"dict.{source}.txt"))
    rows = [stored[number] for number in range(min(args.sentences or len(stored), len(stored)))]
    output = str(folder / f"test.{name}.bin")
    builder = indexed_dataset.MMapIndexedDatasetBuilder(output, stored._index.dtype)
    for row in rows:
        builder.add_item(row)
    builder.finalize(str(folder / f"test.{name}.idx"))
    sentences = [dictionary.string(row) for row in rows]
    (args.work / "sources").write_text("".join(f"{x}\n" for x in sentences), encoding="utf-8")
    return sentences


def lengths(args: argparse.Namespace) -> tuple[int, int, int]:
    """Shortest output, and a and b of the longest: a times the source's length plus b."""
    return (args.output_length, 0, args.output_length) if args.output_length else (1, 1, 50)


def generate(args: argparse.Namespace, side: str) -> list[object]:
    """fairseq-generate with the stock model, or with ours under the same length penalty."""
    least, a, b = lengths(args)
    plain = [sys.executable, Path(__file__).parent / "peers" / "stock.py", "generate"]
    command = plain if side == "stock" else [BIN / "fairseq-generate"]
    command += [args.work / "data-bin", "--gen-subset", "test", "--scoring", "sacrebleu"]
    command += ["--beam", args.beam, "--lenpen", LENPEN, "--max-tokens", args.max_tokens]
    command += ["--required-batch-size-multiple", 1]  # else stock drops the last batch
    command += ["--min-len", least, "--max-len-a", a, "--max-len-b", b]
    command += [] if args.gpu else ["--cpu"]
    if side == "stock":
        return [*command, "--path", args.work / "stock.pt"]
    command += ["--user-dir", ROOT / "vaswani_plugin", "--task", "vaswani_translation"]
    return [*command, "--path", args.model, "--length-penalty", "fairseq"]


def whole_processes(args: argparse.Namespace, engines: list[str]) -> dict[str, list[object]]:
    """The commands by their names."""
    commands = {f"fairseq-generate, {side}": generate(args, side) for side in ("stock", "ours")}
    if args.bundle:
        translate = [BIN / "vaswani", "translate", "--one-sentence-a-line", "--beam", args.beam]
        translate += ["--batch-tokens", args.max_tokens, "--threads", args.threads]
        translate += [*([] if args.gpu else ["--cpu"]), "--model"]
        commands["vaswani translate"] = [*translate, args.bundle]
        if "ours-bfloat16" in engines:
            commands["vaswani translate, bf16"] = [*translate, args.bundle, "--bf16"]
        if "ctranslate2" in engines:
            commands["vaswani translate, CTranslate2"] = [*translate, args.work / "ctranslate2"]
    return commands


def export(args: argparse.Namespace, engines: list[str]) -> None:
    """Our model for stock fairseq, and, where it is installed, a bundle of it for CTranslate2."""
    command = [BIN / "vaswani", "export", "--model"]
    stock = ["--to", "fairseq", "--output", args.work / "stock.pt", "--allow-layer-norm-eps"]
    measure([*command, args.model, *stock])
    if "ctranslate2" not in engines:
        return
    for name in ("plain", "ctranslate2"):
        shutil.rmtree(args.work / name, ignore_errors=True)  # of an earlier run
    if not args.bundle:
        pair = next(args.data_bin.glob("*-*.*.idx")).name.split(".")[1]
        make = [sys.executable, ROOT / "data-prep" / "bundle.py", "--model", args.model, "--pair"]
        make += [pair, "--data-bin", args.data_bin, "--output", args.work / "plain", "--tokenized"]
        make += ["beam=4", "tokenizer=none", "subwords=none", "lowercase=false"]
        measure(make)
    bundle = args.bundle or args.work / "plain"
    measure([*command, bundle, "--to", "ctranslate2", "--output", args.work / "ctranslate2"])


def stock_search(args: argparse.Namespace) -> Decode:
    """fairseq's own generator over the stock model."""
    import torch
    from fairseq import checkpoint_utils, utils

    models, cfg, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(args.work / "stock.pt")], {"data": str(args.data_bin)}
    )
    least, a, b = lengths(args)
    for model in models:
        model.to("cuda" if args.gpu else "cpu").eval().prepare_for_inference_(cfg)
    limits = {"min_len": least, "max_len_a": a, "max_len_b": b}
    wanted = argparse.Namespace(beam=args.beam, lenpen=LENPEN, **limits)
    generator = task.build_generator(models, wanted)

    def decode(batch: list[list[str]]) -> list[int]:
        encode = task.source_dictionary.encode_line
        rows = [encode(" ".join(words), add_if_not_exist=False).long() for words in batch]
        dataset = task.build_dataset_for_inference(rows, [len(row) for row in rows])
        sample = dataset.collater([dataset[number] for number in range(len(rows))])
        with torch.no_grad():
            sample = utils.move_to_cuda(sample) if args.gpu else sample
            hypotheses = task.inference_step(generator, models, sample)
        return [len(best[0]["tokens"]) - 1 for best in hypotheses]

    return decode


def our_search(args: argparse.Namespace, dtype: str) -> Decode:
    """Our search, without fairseq."""
    from vaswani_plugin.inference.checkpoints import load_model
    from vaswani_plugin.inference.search_engine import TorchEngine
    from vaswani_plugin.search.options import SearchOptions
    from vaswani_plugin.text.settings import Settings

    loaded = load_model(args.model, args.data_bin, Settings)
    engine = TorchEngine(loaded, "cuda" if args.gpu else "cpu", dtype, args.threads)
    least, a, b = lengths(args)
    limits = {"max_len_a": a, "max_len_b": b, "min_len": least}
    wanted = SearchOptions(beam=args.beam, lenpen=LENPEN, length_penalty="fairseq", **limits)
    return lambda batch: [len(best.tokens) for best, *_ in engine.decode(batch, wanted)]


def ctranslate2_search(args: argparse.Namespace, dtype: str) -> Decode:
    """CTranslate2's own search over the export, in a process that doesn't import torch."""
    from vaswani_plugin.inference.ctranslate2_engine import import_ctranslate2

    device = {"device": "cuda" if args.gpu else "cpu", "intra_threads": args.threads}
    model = str(args.work / "ctranslate2")
    translator = import_ctranslate2().Translator(model, compute_type=dtype, **device)
    least, a, b = lengths(args)

    def decode(batch: list[list[str]]) -> list[int]:
        longest = a * (max(map(len, batch)) + 1) + b
        results = translator.translate_batch(
            batch,
            beam_size=args.beam,
            length_penalty=LENPEN,
            min_decoding_length=least,
            max_decoding_length=longest,
        )
        return [len(result.hypotheses[0]) for result in results]

    return decode


SEARCHES: dict[str, Callable[[argparse.Namespace], Decode]] = {
    "stock": stock_search,
    "ours": lambda args: our_search(args, "float32"),
    "ours-bfloat16": lambda args: our_search(args, "bfloat16"),
    "ctranslate2": lambda args: ctranslate2_search(args, "float32"),
    "ctranslate2-bfloat16": lambda args: ctranslate2_search(args, "bfloat16"),
    "ctranslate2-int8": lambda args: ctranslate2_search(args, "int8"),
}


def search_alone(args: argparse.Namespace) -> dict[str, float]:
    """Sentences a second of one engine in this process, after a batch that is not counted."""
    decode = SEARCHES[args.engine](args)
    sentences = [line.split() for line in read_lines(args.work / "sources")]
    groups = batches_by_length([len(words) + 1 for words in sentences], args.max_tokens)
    batches = [[sentences[number] for number in group] for group in groups]
    ones = [[words] for words in sentences[: args.single]]
    speeds: dict[str, float] = {}
    for mode, some in {"batch": batches, "one": ones}.items() if ones else [("batch", batches)]:
        decode(some[0])
        start = time.perf_counter()
        outputs = [length for batch in some for length in decode(batch)]
        speeds[mode] = len(outputs) / (time.perf_counter() - start)
        speeds[f"{mode}_subwords"] = sum(outputs) / len(outputs)
    return speeds


def usable_engines(args: argparse.Namespace) -> list[str]:
    """The engines that can run here."""
    supported = {"stock", "ours"}
    if processor.has_bfloat16() or args.gpu:
        supported.add("ours-bfloat16")
    if find_spec("ctranslate2"):  # an extra
        from vaswani_plugin.inference.ctranslate2_engine import import_ctranslate2

        types = import_ctranslate2().get_supported_compute_types("cuda" if args.gpu else "cpu")
        supported |= {"ctranslate2", *(f"ctranslate2-{each}" for each in types)}
    return [name for name in SEARCHES if name in supported]


def compare(args: argparse.Namespace) -> dict[str, Any]:
    """Run everything in turn."""
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    sentences = take_sentences(args)
    if args.bundle:
        lines = list(read_lines(args.lines))[: len(sentences)]
        (args.work / "lines").write_text("".join(f"{x}\n" for x in lines), encoding="utf-8")
    engines = usable_engines(args)
    export(args, engines)
    commands = {} if args.alone else whole_processes(args, engines)
    runs: dict[str, list[Measurement]] = {name: [] for name in commands}
    alone: dict[str, list[dict[str, float]]] = {name: [] for name in engines}
    for number in range(args.repetitions):
        print(f"decoding: round {number + 1} of {args.repetitions}", file=sys.stderr, flush=True)
        for name, command in commands.items():
            text = args.work / "lines" if name.startswith("vaswani") else None
            runs[name].append(measure(command, text, args.work / f"{name}.txt"))
        for name, results in alone.items():
            output = args.work / f"{name}.json"
            measure([sys.executable, __file__, *sys.argv[1:], "--engine", name], stdout=output)
            results.append(json.loads(output.read_text(encoding="utf-8")))
    figures: dict[str, Any] = {"sentences": len(sentences), "processes": {}, "alone": {}}
    for name, processes in runs.items():
        row = {"speed": spread(len(sentences) / run.wall for run in processes)}
        row |= {"cpu_seconds": spread(run.cpu for run in processes)}
        row |= {"peak_mib": spread(run.peak / 2**20 for run in processes)}
        figures["processes"][name] = row
    for name, results in alone.items():
        figures["alone"][name] = {key: spread(run[key] for run in results) for key in results[0]}
    return figures


def as_table(result: dict[str, Any]) -> str:
    """Two tables in Markdown: medians, lowest and highest; stock's row is the first."""
    count, threads = result["sentences"], result["threads"]
    lines = [f"{count:,} sentences, beam {result['beam']}, {threads} threads"]
    whole = "whole process | sentences/s | CPU s | peak MiB", ("speed", "cpu_seconds", "peak_mib")
    alone = "search alone | sentences/s | one by one | subwords", ("batch", "one", "batch_subwords")
    text = "{median:,.1f} ({lowest:,.1f} to {highest:,.1f})"
    for part, (head, keys) in {"processes": whole, "alone": alone}.items():
        stock, *_ = [*result[part].values(), None]
        lines += ["", f"| {head} | times stock |", "|---|---|---|---|---|"] if stock else []
        for name, row in result[part].items():
            cells = [text.format(**row[key]) if key in row else "" for key in keys]
            times = row[keys[0]]["median"] / stock[keys[0]]["median"]
            lines.append(f"| {name} | {' | '.join(cells)} | {times:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="decoding.sh", description=__doc__)
    add = parser.add_argument
    add("--model", type=Path, required=True, help="checkpoint of a vaswani_transformer")
    add("--data-bin", type=Path, required=True, help="binarized data that it was trained on")
    add("--subset", default="test", help="split to translate (default: test)")
    add("--sentences", type=int, help="the first N alone (default: all)")
    add("--single", type=int, default=16, metavar="N", help="the first N also one at a time")
    length = "subwords of every output, for models that are not trained (default: as searched)"
    add("--output-length", type=int, default=0, help=length)
    add("--bundle", type=Path, help="the model as a bundle: also `vaswani translate`")
    add("--lines", type=Path, help="raw text of the subset, a sentence a line, for --bundle")
    add("--alone", action="store_true", help="the search alone, no whole processes")
    add("--work", type=Path, default=ROOT / "work" / "decoding", help="folder of the results")
    add("--max-tokens", type=int, default=4096, help="tokens of a batch (default: 4096)")
    add("--beam", type=int, default=4, help="beam size (default: 4)")
    add("--threads", type=int, default=os.cpu_count())
    add("--repetitions", type=int, default=4, help="rounds, in turn (default: 4)")
    add("--gpu", action="store_true", help="on the first GPU")
    add("--engine", help=argparse.SUPPRESS)  # a process of one engine, started by this script
    args = parser.parse_args()
    if args.engine:
        print(json.dumps(search_alone(args)))
        return
    if bool(args.bundle) != bool(args.lines):
        raise UserError("--bundle and --lines: give both")
    result: dict[str, Any] = {"processor": processor.description(), "beam": args.beam}
    result |= {"threads": args.threads, "output_length": args.output_length, **compare(args)}
    write_json(args.work / "result.json", result)
    print(as_table(result))


if __name__ == "__main__":
    run(main)
