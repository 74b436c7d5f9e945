"""Measures training and decoding on one GPU, and runs its tests; run by gpu.sh."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_report import as_markdown, machine, printed_peak
from measurement import ROOT
from training_runs import ARCHS, PLUGIN, PRECISIONS, SIDES, Setting, run_training, synthetic_data

from vaswani_plugin.errors import UserError, run
from vaswani_plugin.text.binary import binarize
from vaswani_plugin.text.dictionary import read_dictionary
from vaswani_plugin.text.outputs import write_atomically, write_json

PARTS = ("training", "decoding", "tests")
SECONDS = {"training": 330, "decoding": 180, "tests": 180}
"""Time limit in seconds of each command of a part on a GPU. All parts take about ten minutes."""
SENTENCE = 28
"""Tokens of each sentence to decode, without its end; an untrained model writes equally many."""
FEW = 8
"""Sentences of the run that measures a process's start-up. (fairseq leaves out the last batch if
its number of sentences is not a multiple of 8.)"""
BATCH = 64
"""Sentences of a batch in the search whose idle time is measured, beside one sentence alone."""
REHEARSAL = {
    **{"sizes": ["debug"], "vocabulary": 1000, "max_tokens": 400, "updates": 3, "sentences": 16},
    **{"precision": "fp32", "decode_size": "debug"},
}
ON_A_GPU = {
    **{"sizes": ["base", "big"], "vocabulary": 37_000, "updates": 20, "sentences": 2000},
    **{"precision": "bf16", "decode_size": "base"},
}


def call(command: list[object], seconds: float, log: Path) -> str:
    """Run a command and return its output; its messages go to the log.

    Args:
        command: program and arguments.
        seconds: time limit.
        log: file for the messages.

    Raises:
        UserError: the command failed or took too long; names the log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as stream:
        try:
            done = subprocess.run(
                [str(argument) for argument in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stream,
                timeout=seconds,
                cwd=ROOT,
            )
        except subprocess.TimeoutExpired:
            raise UserError(f"took more than {seconds} s; see {log}") from None
    output = done.stdout.decode(errors="replace")
    if done.returncode:
        text = log.read_text(encoding="utf-8", errors="replace") or output
        last = text.strip().rpartition("\n")[2]
        raise UserError(f"exit code {done.returncode}, see {log}: {last}")
    return output


def training(args: argparse.Namespace) -> dict[str, Any]:
    """Speed and memory of both sides by training.py, and idle time by a separate run of ours."""
    flags = ["--data", "synthetic", "--vocabulary", args.vocabulary, "--sizes", *args.sizes]
    flags += ["--device", args.device, "--precision", args.precision, "--work", args.work / "train"]
    flags += ["--max-tokens", args.max_tokens, "--updates", args.updates, "--warm-up", "5"]
    flags += ["--repetitions", args.repetitions]
    script = ROOT / "recipes" / "benchmarks" / "training.py"
    call([sys.executable, script, *flags], args.seconds["training"], args.work / "training.log")
    found = json.loads((args.work / "train" / "training.json").read_text(encoding="utf-8"))
    data = synthetic_data(args.work / "train" / f"synthetic-{args.vocabulary}", args.vocabulary)
    gpu = args.device == "gpu"
    setting = Setting(
        data.resolve(), args.max_tokens, args.updates, 5, args.precision, gpu, found["threads"]
    )
    for size in args.sizes:
        each = found["sizes"][size]
        rate = each["floor"]["matrix_flops_per_second"]
        for side in SIDES:
            share = each["percent_of_floor_reached"][side] / 100
            each[side]["flops_per_second"] = rate * share
            each[side]["mfu_percent"] = (
                100 * rate * share / args.peak_flops if args.peak_flops else None
            )
        idle = run_training(args.work / "train", f"{size}-idle", "ours", size, setting, idle=True)
        each["ours"]["idle_share"] = idle["idle_share"]
    return found


def sentences_to_decode(data: Path, output: Path, count: int) -> Path:
    """A data folder whose test set is `count` random sentences of `SENTENCE` words."""
    import numpy as np

    output.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(2)
    for language in ("source", "target"):
        dictionary = data / f"dict.{language}.txt"
        words = [word for word, _ in read_dictionary(dictionary)]
        (output / dictionary.name).write_bytes(dictionary.read_bytes())
        text = output / f"text.{language}"
        with write_atomically(text) as write:
            for numbers in rng.integers(len(words), size=(count, SENTENCE)):
                write(" ".join(words[i] for i in numbers))
        binarize(str(text), output / f"test.source-target.{language}", words, workers=1)
    return output


def decoding(args: argparse.Namespace) -> dict[str, Any]:
    """Decoding speed of an almost untrained model, by generation.py."""
    work, device = args.work / "decode", [] if args.device == "gpu" else ["--cpu"]
    data = synthetic_data(args.work / "train" / f"synthetic-{args.vocabulary}", args.vocabulary)
    train = [sys.executable, "-m", "fairseq_cli.train", data, "--user-dir", PLUGIN, *device]
    # fairseq's own positions: the stock model needs them.
    train += ["--arch", ARCHS[args.decode_size], "--positions", "sinusoidal-fairseq"]
    train += ["--max-tokens", "400", "--max-update", "1", "--disable-validation", "--seed", "1"]
    model = work / f"model-{args.decode_size}-{args.vocabulary}"
    train += ["--save-dir", model, "--no-epoch-checkpoints", "--num-workers", "0"]
    checkpoint = model / "checkpoint_last.pt"
    if not checkpoint.is_file():
        call(train, args.seconds["decoding"], args.work / "decode-train.log")
    sentences = sentences_to_decode(data, work / "data-bin", args.sentences)
    flags = ["--model", checkpoint, "--data-bin", sentences, "--mode", "batch", "--repeats", "1"]
    flags += ["--max-len-b", "0", "--max-decoding-length", SENTENCE + 1]
    flags += ["--gpu"] if args.device == "gpu" else []
    flags += [] if args.ctranslate2 else ["--no-ctranslate2"]
    script = ROOT / "recipes" / "benchmarks" / "generation.py"
    found = {}
    for count in (FEW, args.sentences):
        own = ["--sentences", count, "--work", work / f"generation-{count}"]
        log = args.work / f"decoding-{count}.log"
        call([sys.executable, script, *flags, *own], args.seconds["decoding"], log)
        result = work / f"generation-{count}" / "result.json"
        found[count] = json.loads(result.read_text(encoding="utf-8"))
    result = with_search_seconds(found[args.sentences], found[FEW])
    result["searches"] = {batch: search_alone(args, data, batch) for batch in (1, BATCH)}
    return result


def search_alone(args: argparse.Namespace, data: Path, batch: int) -> dict[str, float]:
    """Sentences a second of our search, and the share of time in which the device idles.

    The idle share decides whether CUDA graphs would pay: they save the launches of kernels only.

    Args:
        args: of the command.
        data: a data folder with a training set.
        batch: sentences of a batch.
    """
    script = ROOT / "recipes" / "benchmarks" / "decode_once.py"
    command = [sys.executable, script, data, ARCHS[args.decode_size]]
    command += [min(FEW * batch, args.sentences), "--batch", batch, "--idle"]
    command += ["--gpu"] if args.device == "gpu" else []
    log = args.work / f"search-{batch}.log"
    return json.loads(call(command, args.seconds["decoding"], log).strip().rpartition("\n")[2])


def with_search_seconds(many: dict[str, Any], few: dict[str, Any]) -> dict[str, Any]:
    """Add the seconds of the search alone to generation.py's result for many sentences.

    `search_seconds` is the difference to the run with few sentences, so it excludes the start of
    the process; None where it is too short to measure. `search_times_stock` is the speed as a
    multiple of stock's.
    """
    for engine, row in many["batch"].items():
        seconds = row["wall_seconds"] - few["batch"][engine]["wall_seconds"]
        row["search_seconds"] = seconds if seconds > 0 else None
    stock = many["batch"]["stock"]["search_seconds"]
    for row in many["batch"].values():
        known = stock and row["search_seconds"]
        row["search_times_stock"] = stock / row["search_seconds"] if known else None
    return many


def gpu_tests(args: argparse.Namespace) -> dict[str, Any]:
    """The last lines of pytest over tests/gpu."""
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-m", "gpu", "tests/gpu"]
    command += ["-p", "no:cacheprovider"]
    output = call(command, args.seconds["tests"], args.work / "tests.log")
    lines = [line for line in output.strip().split("\n") if line.strip()]
    skipped = [line for line in lines if line.startswith("SKIPPED")]
    return {"said": lines[-1], "skipped": skipped}


def run_parts(
    args: argparse.Namespace, parts: dict[str, Callable[[argparse.Namespace], dict[str, Any]]]
) -> dict[str, Any]:
    """The result or the error of each part; the report is rewritten after each part."""
    report: dict[str, Any] = {"machine": machine(args.device), "settings": settings_of(args)}
    report["parts"] = {}
    for name, part in parts.items():
        print(f"gpu.sh: {name} ...", file=sys.stderr, flush=True)
        try:
            report["parts"][name] = {"result": part(args)}
        except Exception as error:  # after any error, the other parts still give results
            reason = " ".join(str(error).split()) or type(error).__name__
            report["parts"][name] = {"failed": reason}
            print(f"gpu.sh: {name} failed: {reason}", file=sys.stderr, flush=True)
        write_json(args.work / "gpu-report.json", report)
        with write_atomically(args.work / "gpu-report.md") as write:
            write(as_markdown(report))
    return report


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    """The options that the report shows."""
    names = ("device", "sizes", "precision", "max_tokens", "updates", "repetitions", "vocabulary")
    names += ("decode_size", "sentences", "peak_flops")
    return {name: getattr(args, name) for name in names}


def options() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="gpu.sh", description=__doc__)
    parser.add_argument("--work", type=Path, default=ROOT / "work" / "gpu")
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--sizes", nargs="+", choices=ARCHS, help="models to train (default: base big)"
    )
    parser.add_argument("--precision", choices=PRECISIONS, help="of training (default: bf16)")
    parser.add_argument("--max-tokens", type=int, help="tokens in a batch, padding included")
    parser.add_argument(
        "--updates", type=int, help="updates to measure, after five of warm-up (default: 20)"
    )
    parser.add_argument("--repetitions", type=int, default=1, help="(default: 1)")
    parser.add_argument("--vocabulary", type=int, help="vocabulary size (default: 37000)")
    parser.add_argument(
        "--sentences", type=int, help="sentences to decode, a multiple of 8 (default: 2000)"
    )
    parser.add_argument("--decode-size", choices=ARCHS, help="model to decode with (default: base)")
    parser.add_argument(
        "--peak-tflops",
        type=float,
        help="the GPU's bf16 rate by its data sheet, without sparsity, for the MFU",
    )
    return parser


def complete(args: argparse.Namespace) -> argparse.Namespace:
    """Set the options that were not given to the defaults for the device.

    Raises:
        UserError: there is no GPU.
    """
    import torch

    if args.device == "gpu" and not torch.cuda.is_available():
        raise UserError("PyTorch finds no GPU on this machine; --device cpu rehearses the commands")
    if args.sentences is not None and (args.sentences % FEW or args.sentences <= FEW):
        raise UserError(f"--sentences {args.sentences}: must be a multiple of {FEW}, above it")
    defaults = REHEARSAL if args.device == "cpu" else ON_A_GPU
    for name, value in defaults.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    if args.max_tokens is None:
        room = torch.cuda.get_device_properties(0).total_memory
        args.max_tokens = 25_000 if room > 60e9 else 4096
    args.peak_flops = (args.peak_tflops or 0.0) * 1e12 or printed_peak(machine(args.device))
    args.seconds = SECONDS if args.device == "gpu" else dict.fromkeys(SECONDS, 600)
    try:
        import ctranslate2  # noqa: F401 -- an extra

        args.ctranslate2 = True
    except ImportError:
        args.ctranslate2 = False
    args.work = args.work.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    return args


def main() -> None:
    """Command line."""
    args = complete(options().parse_args())
    known = {"training": training, "decoding": decoding, "tests": gpu_tests}
    report = run_parts(args, {name: known[name] for name in PARTS if name in args.parts})
    print((args.work / "gpu-report.md").read_text(encoding="utf-8"))
    failed = [name for name, part in report["parts"].items() if "failed" in part]
    if failed:
        raise UserError(f"failed: {', '.join(failed)}; the report is {args.work}/gpu-report.md")


if __name__ == "__main__":
    run(main)
