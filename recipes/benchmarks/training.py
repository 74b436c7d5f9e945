"""Speed and memory of training: ours beside fairseq's `transformer` and other toolkits.

All have the same sizes, data, batches, threads, precision, loss, optimizer and rate. Each run
is a process of its own, the sides take turns, and one that fails is named. Run by training.sh.
"""

import argparse
import json
import os
import re
import shlex
import statistics
import sys
import sysconfig
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from measurement import ROOT, measure

from vaswani_plugin import processor
from vaswani_plugin.errors import UserError
from vaswani_plugin.files.outputs import write_json
from vaswani_plugin.files.programs import run
from vaswani_plugin.metrics.cost import DEVICES
from vaswani_plugin.model.configuration import Configuration
from vaswani_plugin.model.families import TRANSLATOR, row_of

STOCK = {"stock": {}, "stock-no-cudnn": {"TORCH_CUDNN_SDPA_DEPRIORITIZED": "1"}}
"""fairseq without the plugin, as installed and, for a GPU, without cuDNN's plans of attention."""
OURS = {"ours": [], "ours-amp": ["--amp"]}
FAIRSEQ = (*STOCK, *OURS)
PEERS = ("transformers", "eole", "joeynmt")
ARCHS = {size: f"vaswani_{size}" for size in ("debug", "tiny", "base", "big")}
PRECISIONS = {"fp32": [], "bf16": ["--bf16"], "fp16": ["--fp16"]}
PLUGIN, DRIVERS = ROOT / "vaswani_plugin", Path(__file__).parent / "peers"
MALLOC = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold="
SAVING, KEEPING = "4194304", "1073741824:glibc.malloc.trim_threshold=4294967296"
"""GLIBC_TUNABLES with --checkpoint-activations and with --amp, as recipes/common.sh sets it."""


def stock_flags(cfg: Configuration) -> list[str]:
    """fairseq's own Transformer of the same size, with the same loss and optimizer."""
    flags = ["--arch", "transformer", "--share-all-embeddings", "--dropout", str(cfg.dropout)]
    for side, layers in (("encoder", cfg.encoder_layers), ("decoder", cfg.decoder_layers)):
        flags += [f"--{side}-layers", str(layers), f"--{side}-embed-dim", str(cfg.d_model)]
        flags += [f"--{side}-ffn-embed-dim", str(cfg.d_ff)]
        flags += [f"--{side}-attention-heads", str(cfg.heads)]
    flags += ["--criterion", "label_smoothed_cross_entropy", "--optimizer", "adam"]
    return [*flags, "--adam-betas", "(0.9, 0.98)", "--adam-eps", "1e-9"]


def fairseq_flags(args: argparse.Namespace, side: str, size: str) -> list[str]:
    """fairseq-train's arguments."""
    flags = [str(args.data), "--max-tokens", str(args.max_tokens), "--seed", "1", "--lr", "1e-4"]
    flags += ["--max-update", str(args.warm_up + args.updates), "--label-smoothing", "0.1"]
    flags += ["--lr-scheduler", "fixed", "--no-save", "--disable-validation"]
    flags += ["--required-batch-size-multiple", "1"]  # else stock drops the last batch
    # a GPU would wait for its batches; a CPU has no core to spare
    flags += ["--num-workers", "2" if args.device == "gpu" else "0"]
    flags += ["--no-progress-bar", "--log-interval", "10", "--save-dir", str(args.work / "crash")]
    flags += PRECISIONS[args.precision] + ([] if args.device == "gpu" else ["--cpu"])
    if side in STOCK:
        return flags + stock_flags(configuration(size))
    flags += ["--user-dir", str(PLUGIN), "--task", "vaswani_translation", "--arch", ARCHS[size]]
    return flags + OURS[side] + shlex.split(args.ours_flags)


def configuration(size: str) -> Configuration:
    """The sizes of an architecture."""
    return Configuration(**row_of(ARCHS[size])[1].changes)


def job_of(args: argparse.Namespace, side: str, size: str) -> dict[str, Any]:
    """The job of a driver of peers/: sizes, data and numbers of updates."""
    job: dict[str, Any] = {"warm_up": args.warm_up, "updates": args.updates}
    job |= {"gpu": args.device == "gpu", "max_tokens": args.max_tokens}
    job["profile"] = getattr(args, "profile", False)  # kernels.sh has none
    if side in FAIRSEQ:
        return job | {"flags": fairseq_flags(args, side, size), "stock": side in STOCK}
    cfg, dictionaries = configuration(size), sorted(args.data.glob("dict.*.txt"))
    job["size"] = {key: getattr(cfg, key) for key in ("d_model", "d_ff", "heads", "dropout")}
    job["size"]["layers"] = cfg.encoder_layers
    pair = next(args.data.glob("train.*.idx")).name.split(".")[1].split("-")
    text = [str(args.data.parent / "bpe" / f"train.{language}") for language in pair]
    work = args.work / "peers" / side
    work.mkdir(parents=True, exist_ok=True)
    return job | {"dictionary": str(dictionaries[0]), "text": text, "work": str(work)}


def interpreter(args: argparse.Namespace, side: str) -> str:
    """That of an environment with the peer's pinned packages and, by a link, all of ours."""
    if side in FAIRSEQ:
        return sys.executable
    folder, pins = args.work / "envs" / side, DRIVERS / f"requirements-{side}.txt"
    python, stamp = folder / "bin" / "python", folder / "complete"
    key = pins.read_text(encoding="utf-8")
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != key:
        say(f"making the environment of {side}")
        measure([sys.executable, "-m", "venv", "--clear", "--without-pip", folder])
        site = next((folder / "lib").glob("python*/site-packages"))
        (site / "ours.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "-r", pins]
        measure(pip)
        stamp.write_text(key, encoding="utf-8")
    return str(python)


def train(args: argparse.Namespace, side: str, size: str, kernels: str = "on") -> dict[str, Any]:
    """The report of one training, which is a process of its own."""
    say(f"{size}, {side}")
    job, report = args.work / "job.json", args.work / "report.json"
    report.unlink(missing_ok=True)
    write_json(job, job_of(args, side, size))
    changes = {"OMP_NUM_THREADS": str(args.threads), "VASWANI_KERNELS": kernels}
    changes |= {"PYTHONPATH": str(ROOT) if side in OURS else "", "HF_HUB_OFFLINE": "1"}
    changes |= STOCK.get(side, {})
    if "--checkpoint-activations" in args.ours_flags and side in OURS:
        changes["GLIBC_TUNABLES"] = MALLOC + SAVING
    elif side == "ours-amp":
        changes["GLIBC_TUNABLES"] = MALLOC + KEEPING
    driver = DRIVERS / f"train_{'fairseq' if side in FAIRSEQ else side}.py"
    log = args.work / f"{side}.log"
    measure([interpreter(args, side), driver, job, report], stdout=log, **changes)
    content = json.loads(report.read_text(encoding="utf-8"))
    print(content.pop("profile", ""), end="")
    return content


def figures(report: dict[str, Any], warm_up: int) -> dict[str, float]:
    """The figures of one run, without its first `warm_up` updates."""
    rows = report["updates"][warm_up:]
    tokens, seconds, cpu = (sum(r[k] for r in rows) for k in ("target", "seconds", "cpu_seconds"))
    peak = report["peak_bytes"] / 2**20
    speeds = {"tokens_per_second": tokens / seconds, "tokens_per_cpu_second": tokens / cpu}
    costs = {"tokens_per_update": tokens / len(rows), "peak_mib": peak}
    return speeds | costs | {"last_loss": rows[-1].get("loss", float("nan"))}


def spread(values: Iterable[float]) -> dict[str, float]:
    """Median, lowest and highest of several runs."""
    kinds, values = {"median": statistics.median, "lowest": min, "highest": max}, list(values)
    return {name: round(statistic(values), 3) for name, statistic in kinds.items()}


def flops(args: argparse.Namespace, size: str, report: dict[str, Any]) -> float:
    """FLOPs of a second of a training: 3 forward passes over sentences of the mean lengths."""
    from vaswani_plugin.figures.flops import forward_flops

    rows = report["updates"][args.warm_up :]
    sums = {k: sum(r[k] for r in rows) for k in ("sentences", "source", "target", "seconds")}
    shape = 1, *(round(sums[k] / sums["sentences"]) for k in ("source", "target"))
    vocabulary = 4 + next(args.data.glob("dict.*.txt")).read_bytes().count(b"\n")
    each = forward_flops(TRANSLATOR, vars(configuration(size)), vocabulary, shape)
    return 3 * each * sums["sentences"] / sums["seconds"]


def printed_peak(name: str) -> float | None:
    """Peak FLOP/s that the maker of a GPU prints, if `vaswani cost` knows it."""
    words = re.split("[ -]", name)
    peaks = [one.teraflops for one in DEVICES.values() if one.name in words and one.kind == "peak"]
    return 1e12 * peaks[0] if peaks and "PCIe" not in words else None


def compare(args: argparse.Namespace, size: str) -> dict[str, Any]:
    """Run the sides of one size in turn; by side its figures, or why it failed."""
    reports: dict[str, list] = {side: [] for side in args.sides}
    results: dict[str, Any] = {}
    for _ in range(args.repetitions):
        for side in [side for side in args.sides if side not in results]:
            try:
                reports[side].append(train(args, side, size))
            except UserError as error:
                say(f"{side}: {error}")
                results[side] = {"failed": str(error)}
    for side in [side for side in args.sides if side not in results]:
        rows = [figures(report, args.warm_up) for report in reports[side]]
        results[side] = {key: spread(row[key] for row in rows) for key in rows[0]}
        if side in FAIRSEQ:
            results[side]["flops_per_second"] = flops(args, size, reports[side][-1])
    return results


def synthetic_data(work: Path, vocabulary: int, pairs: int) -> Path:
    """Random tokens in sentences as long as newstest's, binarized; made once.

    Lengths are log-normal with the spreads of newstest2014's in words; a quarter is added for
    punctuation and subwords. A million pairs, sorted by length, fill batches as WMT14's do.
    """
    from fairseq.data.indexed_dataset import MMapIndexedDataset

    folder, rng = work / f"synthetic-{vocabulary}-{pairs}", np.random.default_rng(1)
    if (folder / "complete").is_file():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    words = "".join(f"w{number} 1\n" for number in range(vocabulary - 4))  # fairseq adds four
    dtype = np.uint16 if vocabulary <= 65_500 else np.int32
    for split, count in (("train", pairs), ("valid", 8), ("test", 2000)):
        source = rng.lognormal(2.85 + np.log(1.25), 0.54, count)
        target = source * rng.lognormal(0.0, 0.2, count)
        for language, lengths in (("en", source), ("de", target)):
            (folder / f"dict.{language}.txt").write_text(words, encoding="utf-8")
            sizes = lengths.round().clip(1, 200).astype(int) + 1
            tokens = rng.integers(4, vocabulary, sizes.sum(), dtype)
            tokens[sizes.cumsum() - 1] = 2  # the end of a sentence
            prefix = folder / f"{split}.en-de.{language}"
            tokens.tofile(f"{prefix}.bin")
            with MMapIndexedDataset.Index.writer(f"{prefix}.idx", dtype) as index:
                index.write(sizes.tolist())
    (folder / "complete").touch()
    return folder


def hardly_trained(args: argparse.Namespace, size: str) -> Path:
    """A checkpoint after one update, for measuring a search; made once."""
    checkpoint = args.work / f"hardly-trained-{size}" / "checkpoint_last.pt"
    if not checkpoint.is_file():
        command = [sys.executable, "-m", "fairseq_cli.train", args.data, "--user-dir", PLUGIN]
        command += ["--arch", ARCHS[size], "--save-dir", checkpoint.parent]
        command += "--max-tokens 400 --max-update 1 --seed 1 --disable-validation".split()
        command += "--no-epoch-checkpoints --num-workers 0 --positions sinusoidal-fairseq".split()
        measure(command + ([] if args.device == "gpu" else ["--cpu"]))  # these positions for stock
    return checkpoint


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"{Path(sys.argv[0]).stem}: {text}", file=sys.stderr, flush=True)


def options(description: str | None) -> argparse.ArgumentParser:
    """The options that training and kernels share."""
    parser = argparse.ArgumentParser(prog=f"{Path(sys.argv[0]).stem}.sh", description=description)
    add = parser.add_argument
    add("--data", default="synthetic", help="binarized data (default: synthetic, random tokens)")
    add("--vocabulary", type=int, default=37_000, help="rows of synthetic data (default: 37000)")
    add("--pairs", type=int, default=1_000_000, help="of synthetic data (default: 1000000)")
    add("--work", type=Path, default=ROOT / "work" / Path(sys.argv[0]).stem)
    add("--sizes", nargs="+", choices=ARCHS, default=["tiny"])
    add("--precision", choices=PRECISIONS, default="fp32")
    add("--device", choices=("cpu", "gpu"), default="cpu")
    add("--threads", type=int, default=os.cpu_count())
    add("--max-tokens", type=int, default=4096, help="of a batch, with padding (default: 4096)")
    add("--warm-up", type=int, default=5, help="first updates, not measured (default: 5)")
    add("--updates", type=int, default=20, help="updates to measure (default: 20)")
    add("--repetitions", type=int, default=4, help="rounds, in turn (default: 4)")
    add("--ours-flags", default="", help="more flags of ours, such as --ours-flags=--compile")
    return parser


def complete(args: argparse.Namespace) -> argparse.Namespace:
    """Check the options, and make synthetic data."""
    for name in ("threads", "max_tokens", "updates", "repetitions", "pairs"):
        if getattr(args, name) < 1:
            raise UserError(f"--{name.replace('_', '-')} {getattr(args, name)}: must be at least 1")
    if args.warm_up < 0 or args.vocabulary < 5:
        raise UserError("--warm-up must be at least 0, --vocabulary at least 5")
    if args.data != "synthetic" and not list(Path(args.data).glob("train.*.bin")):
        raise UserError(f"--data {args.data}: no binarized training data there (train.*.bin)")
    if args.precision == "fp16" and args.device == "cpu":
        raise UserError("--precision fp16: fairseq trains in it on a GPU only; choose bf16")
    if args.device == "gpu":
        import torch

        if not torch.cuda.is_available():
            raise UserError("PyTorch finds no GPU on this machine; --device cpu rehearses")
    args.work = args.work.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    if args.data == "synthetic":
        args.data = synthetic_data(args.work, args.vocabulary, args.pairs)
    args.data = Path(args.data).resolve()
    return args


def machine(device: str) -> dict[str, Any]:
    """Name, memory and software of the machine."""
    facts: dict[str, Any] = {"name": processor.description(), "python": sys.version.split()[0]}
    if device == "gpu":
        import torch

        properties = torch.cuda.get_device_properties(0)
        facts |= {"name": properties.name, "gib": round(properties.total_memory / 2**30, 1)}
    return facts | {name: version(name) for name in ("torch", "fairseq-fixed")}


def write_result(args: argparse.Namespace, result: dict[str, Any], table: str) -> None:
    """WORK/result.json with the machine and the options, and the table on standard output."""
    flags = {key: str(v) if isinstance(v, Path) else v for key, v in vars(args).items()}
    write_json(args.work / "result.json", {"machine": machine(args.device), **flags, **result})
    print(f"{table}\n\nall figures: {args.work / 'result.json'}")


def as_table(args: argparse.Namespace, sizes: dict[str, Any]) -> str:
    """A table in Markdown: medians, of the speed also the lowest and highest."""
    name = machine(args.device)["name"]
    peak = printed_peak(name)
    batch = f"{args.max_tokens:,} tokens a batch, {args.updates} updates x {args.repetitions}"
    lines = [f"{name}, {args.precision}, {args.threads} threads, {batch}", ""]
    head = "| size | side | target tokens/s | a CPU second | a batch | peak MiB | of printed peak |"
    lines += [head, "|---|---|---|---|---|---|---|"]
    for size, sides in sizes.items():
        for side, row in sides.items():
            if "failed" in row:
                lines.append(f"| {size} | {side} | failed: {row['failed']} | | | | |")
                continue
            speed, *others = list(row.values())[:4]
            cells = [size, side, "{median:,.0f} ({lowest:,.0f} to {highest:,.0f})".format(**speed)]
            cells += [f"{each['median']:,.0f}" for each in others]
            known = peak and "flops_per_second" in row
            cells.append(f"{100 * row['flops_per_second'] / peak:.1f}%" if known else "")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    parser = options(__doc__)
    add = parser.add_argument
    add("--sides", nargs="+", choices=FAIRSEQ + PEERS, help="(default: those of fairseq, and ours)")
    add("--profile", action="store_true", help="print the time of PyTorch's functions")
    args = complete(parser.parse_args(argv))
    if not args.sides:
        args.sides = ["stock", *(["stock-no-cudnn"] if args.device == "gpu" else []), "ours"]
    for side in set(args.sides) - set(FAIRSEQ):
        if args.device == "gpu" or args.precision != "fp32":
            raise UserError(f"--sides {side}: is compared on a CPU, in fp32")
        if not (text := args.data.parent / "bpe").is_dir():
            raise UserError(f"--sides {side}: needs the subwords as text, in {text}")
    sizes = {size: compare(args, size) for size in args.sizes}
    write_result(args, {"sizes": sizes}, as_table(args, sizes))


if __name__ == "__main__":
    run(main)
