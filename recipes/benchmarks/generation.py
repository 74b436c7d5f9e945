"""Measures the translation speed of several engines, as whole processes; run by generation.sh."""

import argparse
import json
import os
import shutil
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from measurement import ROOT, Command, Measurement, measure

from vaswani_plugin import processor
from vaswani_plugin.errors import UserError, run
from vaswani_plugin.inference.engine import engine_of
from vaswani_plugin.text.lines import read_lines
from vaswani_plugin.text.outputs import write_atomically, write_json

BIN = Path(sys.executable).parent
MODES = {"batch": [], "one": ["--batch-size", "1"]}
QUANTIZATIONS = {"ctranslate2-float32": [], "ctranslate2-int8": ["--quantization", "int8"]}


def hypotheses(output: Path) -> dict[int, str]:
    """Sentence number -> best hypothesis, in subwords, of fairseq-generate's output."""
    lines = [line.split("\t") for line in read_lines(output) if line.startswith("H-")]
    return {int(fields[0][2:]): fields[2] for fields in lines}


def take_sentences(data_bin: Path, subset: str, count: int, output: Path) -> Path:
    """The first sentences of a subset as a data folder of their own."""
    from fairseq.data import indexed_dataset

    output.mkdir(parents=True, exist_ok=True)
    for dictionary in data_bin.glob("dict.*.txt"):
        shutil.copy(dictionary, output)
    for index in data_bin.glob(f"{subset}.*.idx"):
        stored = indexed_dataset.make_dataset(str(index.with_suffix("")), "mmap")
        target = output / index.stem
        builder = indexed_dataset.MMapIndexedDatasetBuilder(f"{target}.bin", stored._index.dtype)
        for number in range(min(count, len(stored))):
            builder.add_item(stored[number])
        builder.finalize(f"{target}.idx")
    return output


def fairseq_command(args: argparse.Namespace, engine: str, mode: str, output: Path) -> Command:
    """fairseq-generate with the stock model, or with ours under either length penalty."""
    arguments = [BIN / "fairseq-generate", args.data_bin, "--gen-subset", args.subset]
    arguments += ["--beam", args.beam, "--lenpen", 0.6]
    if args.output_length:
        length = args.output_length
        arguments += ["--min-len", length, "--max-len-a", 0, "--max-len-b", length]
    else:
        arguments += ["--max-len-a", 1, "--max-len-b", args.max_len_b]
    arguments += ["--max-tokens", args.max_tokens, *MODES[mode], *([] if args.gpu else ["--cpu"])]
    if engine == "stock":
        arguments += ["--task", "translation", "--path", args.work / "stock.pt"]
    else:
        arguments += ["--user-dir", ROOT / "vaswani_plugin", "--task", "vaswani_translation"]
        arguments += ["--path", args.model, "--length-penalty", engine.removeprefix("ours-")]
    return Command(arguments, stdout=output)


def ctranslate2_command(args: argparse.Namespace, engine: str, mode: str, output: Path) -> Command:
    """The command that runs this file as the process in which CTranslate2 translates."""
    arguments = [sys.executable, __file__, "--translate-with", args.work / engine]
    arguments += ["--beam", args.beam, "--threads", args.threads, "--max-tokens", args.max_tokens]
    arguments += ["--max-decoding-length", args.output_length or args.max_decoding_length]
    if args.output_length:
        arguments += ["--output-length", args.output_length]
    arguments += ["--one"] if mode == "one" else []
    arguments += ["--gpu"] if args.gpu else []
    return Command(arguments, stdin=args.work / "sources", stdout=output)


def bundle_commands(args: argparse.Namespace) -> dict[str, Callable[[Path], Command]]:
    """`vaswani translate` of each bundle, from raw text to raw text: for an output, its command."""

    def command(bundle: Path, *flags: str) -> Callable[[Path], Command]:
        arguments = [BIN / "vaswani", "translate", "--model", bundle, "--beam", args.beam, *flags]
        arguments += ["--threads", args.threads, "--batch-tokens", args.max_tokens]
        arguments += ["--one-sentence-a-line"]
        arguments += [] if args.gpu else ["--cpu"]
        return lambda output: Command(arguments, stdin=args.work / "lines", stdout=output)

    found = {f"translate-{bundle.name}": command(bundle) for bundle in args.bundle}
    if args.bf16:
        own = [bundle for bundle in args.bundle if engine_of(bundle) == "torch"]
        found |= {f"translate-{bundle.name}-bf16": command(bundle, "--bf16") for bundle in own}
    return found


def translate_with_ctranslate2(args: argparse.Namespace) -> None:
    """Translate standard input to standard output, in subwords."""
    import ctranslate2

    translator = ctranslate2.Translator(
        str(args.translate_with),
        device="cuda" if args.gpu else "cpu",
        inter_threads=1,
        intra_threads=args.threads,
    )
    sources = [line.split() for line in sys.stdin.read().split("\n")[:-1]]
    results = translator.translate_batch(
        sources,
        beam_size=args.beam,
        length_penalty=0.6,
        max_batch_size=1 if args.one else args.max_tokens,
        batch_type="examples" if args.one else "tokens",
        max_decoding_length=args.max_decoding_length,
        min_decoding_length=args.output_length or 1,
    )
    print("\n".join(" ".join(result.hypotheses[0]) for result in results))


def summary(runs: list[Measurement], tokens: int) -> dict[str, float]:
    """Medians over the runs of one engine."""
    wall = statistics.median(m.wall for m in runs)
    return {
        "wall_seconds": round(wall, 3),
        "cpu_seconds": round(statistics.median(m.cpu for m in runs), 3),
        "sentences_per_second": round(runs[0].lines / wall, 2),
        "tokens_per_second": round(tokens / wall, 1),
        "peak_mib": round(max(m.peak for m in runs) / 2**20),
    }


def prepare(args: argparse.Namespace) -> list[str]:
    """Export the model and write the sources; returns the names of the engines that can run."""
    args.work.mkdir(parents=True, exist_ok=True)
    if args.sentences:
        wanted = args.data_bin, args.subset, args.sentences
        args.data_bin = take_sentences(*wanted, args.work / "data-bin")
    export = [BIN / "vaswani", "export", "--model", args.model]
    stock = ["--to", "fairseq", "--output", args.work / "stock.pt", "--allow-layer-norm-eps"]
    measure(0, [Command([*export, *stock])])
    engines = ["stock", "ours-fairseq", "ours-paper"]
    if not args.no_ctranslate2:
        from vaswani_plugin.export.ctranslate2_export import import_ctranslate2

        import_ctranslate2()  # fail now if it is missing; child processes inherit its settings
        for name, flags in QUANTIZATIONS.items():
            shutil.rmtree(args.work / name, ignore_errors=True)  # of an earlier run
            output = ["--output", args.work / name, "--data-bin", args.data_bin]
            measure(0, [Command([*export, "--to", "ctranslate2", *flags, *output])])
        engines += QUANTIZATIONS
    first = args.work / "first.txt"
    measure(0, [fairseq_command(args, "ours-paper", "batch", first)])
    found = {
        int(line.split("\t")[0][2:]): line.split("\t")[1]
        for line in read_lines(first)
        if line.startswith("S-")
    }
    with write_atomically(args.work / "sources") as put:
        for number in sorted(found):
            put(found[number])
    if args.bundle:
        lines = list(read_lines(args.lines))[: args.sentences]
        if len(lines) != len(found):
            raise UserError(f"{args.lines}: {len(lines)} lines for {len(found)} sentences")
        with write_atomically(args.work / "lines") as put:
            for line in lines:
                put(line)
    return engines


def benchmark(args: argparse.Namespace) -> dict:
    """Run all engines in turn, `args.repeats` times, and compare them."""
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    engines = prepare(args)
    sources = list(read_lines(args.work / "sources"))
    result = {"processor": processor.description(), "beam": args.beam, "threads": args.threads}
    result |= {"sentences": len(sources), "output_length": args.output_length}
    for mode in MODES if args.mode == "both" else [args.mode]:
        bundles = bundle_commands(args) if mode == "batch" else {}
        runs = {engine: [] for engine in (*engines, *bundles)}
        for _ in range(args.repeats):
            for engine in runs:
                output = args.work / f"{mode}-{engine}.txt"
                if engine in bundles:
                    command = bundles[engine](output)
                else:
                    make = ctranslate2_command if engine in QUANTIZATIONS else fairseq_command
                    command = make(args, engine, mode, output)
                runs[engine].append(measure(len(sources), [command]))
        stock, ours = (
            hypotheses(args.work / f"{mode}-{name}.txt") for name in ("stock", "ours-fairseq")
        )
        tokens = sum(len(line.split()) + 1 for line in stock.values())
        table = {engine: summary(times, tokens) for engine, times in runs.items()}
        for row in table.values():
            row["times_stock"] = round(table["stock"]["wall_seconds"] / row["wall_seconds"], 2)
        result[mode] = table
        result[f"{mode}_sentences_unlike_stock"] = sum(stock[n] != ours[n] for n in stock)
    return result


def options() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="generation.sh", description=__doc__)
    parser.add_argument("--model", type=Path, help="checkpoint of a vaswani_transformer")
    parser.add_argument("--data-bin", type=Path, help="binarized data that it was trained on")
    parser.add_argument("--subset", default="test", help="split to translate (default: test)")
    parser.add_argument("--sentences", type=int, help="translate only the first N (default: all)")
    parser.add_argument(
        "--max-len-b",
        type=int,
        default=50,
        help="output length at most source length + N (default: 50)",
    )
    parser.add_argument(
        "--max-decoding-length",
        type=int,
        default=256,
        help="output length of CTranslate2 at most N (default: 256)",
    )
    parser.add_argument(
        "--output-length",
        type=int,
        help="every output has N subwords: for models that are not trained (default: as searched)",
    )
    parser.add_argument(
        "--bundle",
        type=Path,
        nargs="+",
        default=[],
        help="also `vaswani translate` of these bundles, from --lines, in batches",
    )
    parser.add_argument(
        "--bf16", action="store_true", help="these bundles by PyTorch in bfloat16, too"
    )
    parser.add_argument("--lines", type=Path, help="raw text of the subset, a sentence a line")
    parser.add_argument("--work", type=Path, default=Path("work/generation-benchmark"))
    parser.add_argument("--mode", choices=[*MODES, "both"], default="both")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=12000,
        help="tokens in a batch (default: 12000, as in fairseq)",
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--no-ctranslate2", action="store_true")
    parser.add_argument("--translate-with", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    return parser


def main() -> None:
    """Print the result as JSON and keep it in WORK/result.json."""
    parser = options()
    args = parser.parse_args()
    if args.translate_with:
        translate_with_ctranslate2(args)
        return
    if not args.model or not args.data_bin:
        parser.error("give --model and --data-bin")
    if args.bundle and not args.lines:
        parser.error("--bundle: give --lines too")
    if len({bundle.name for bundle in args.bundle}) < len(args.bundle):
        parser.error("--bundle: the folders need different names")
    report = benchmark(args)
    write_json(args.work / "result.json", report)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    run(main)
