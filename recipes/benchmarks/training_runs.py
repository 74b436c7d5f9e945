"""Shared by benchmarks of training: flags of both sides, data, and runs with stored results."""

import argparse
import hashlib
import importlib.metadata
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from measurement import ROOT

from vaswani_plugin import processor
from vaswani_plugin.errors import UserError
from vaswani_plugin.text.binary import binarize
from vaswani_plugin.text.dictionary import SPECIAL_SYMBOLS, write_dictionary
from vaswani_plugin.text.lines import read_json
from vaswani_plugin.text.outputs import write_atomically, write_json

SIDES = ("stock", "ours")
ARCHS = {
    "debug": "vaswani_debug",
    "tiny": "vaswani_tiny",
    "base": "vaswani_base",
    "big": "vaswani_big",
}
PRECISIONS = {"fp32": [], "bf16": ["--bf16"], "fp16": ["--fp16"]}
PLUGIN = ROOT / "vaswani_plugin"
SAVING_ALLOCATOR = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4194304"
"""GLIBC_TUNABLES with --checkpoint-activations, as recipes/common.sh sets it."""

# Log-normal sentence lengths, with the spreads of newstest2014's lengths in words. A quarter is
# added for punctuation and subwords.
SOURCE_LENGTH = (2.85 + np.log(1.25), 0.54)
TARGET_OVER_SOURCE = (0.0, 0.2)
LONGEST = 200
SYNTHETIC_SENTENCES = 20_000


@dataclass(frozen=True)
class Setting:
    """The settings that both sides of a comparison share."""

    data: Path
    max_tokens: int
    updates: int
    warm_up: int
    precision: str = "fp32"
    gpu: bool = False
    threads: int = 1
    ours_flags: tuple[str, ...] = ()
    kernels: str = "on"

    def command(self, side: str, size: str) -> list[str]:
        """The arguments of fairseq-train.

        Stock runs without the plugin, except in bf16, for which fairseq needs the plugin's patches.
        """
        flags = [str(self.data), "--max-tokens", str(self.max_tokens), "--seed", "1"]
        flags += ["--max-update", str(self.warm_up + self.updates), "--label-smoothing", "0.1"]
        flags += ["--lr-scheduler", "fixed", "--lr", "1e-4", "--num-workers", "0", "--no-save"]
        flags += ["--disable-validation", "--no-progress-bar", "--log-interval", "10"]
        flags += PRECISIONS[self.precision] + ([] if self.gpu else ["--cpu"])
        with_plugin = ["--user-dir", str(PLUGIN)]
        if side == "ours":
            ours = ["--task", "vaswani_translation", "--arch", ARCHS[size], *self.ours_flags]
            return [*flags, *with_plugin, *ours]
        return flags + stock_flags(size) + (with_plugin if self.precision == "bf16" else [])


def configuration(size: str) -> Any:
    """The Configuration of a size."""
    from vaswani_plugin.model.architectures import row_of
    from vaswani_plugin.model.configuration import Configuration

    return Configuration(**row_of(ARCHS[size]).changes)


def stock_flags(size: str) -> list[str]:
    """fairseq's own Transformer of the same size, with the same loss and optimizer."""
    cfg = configuration(size)
    flags = ["--arch", "transformer", "--share-all-embeddings", "--dropout", str(cfg.dropout)]
    for side, layers in (("encoder", cfg.encoder_layers), ("decoder", cfg.decoder_layers)):
        flags += [f"--{side}-layers", str(layers), f"--{side}-embed-dim", str(cfg.d_model)]
        flags += [f"--{side}-ffn-embed-dim", str(cfg.d_ff)]
        flags += [f"--{side}-attention-heads", str(cfg.heads)]
    flags += ["--criterion", "label_smoothed_cross_entropy", "--optimizer", "adam"]
    return [*flags, "--adam-betas", "(0.9, 0.98)", "--adam-eps", "1e-9"]


def run_training(
    work: Path,
    name: str,
    side: str,
    size: str,
    setting: Setting,
    synchronize: bool = False,
    idle: bool = False,
) -> dict[str, Any]:
    """The report of train_once.py for a run; a run that finished before is not repeated.

    Args:
        work: the report goes to WORK/runs, fairseq's log to WORK/logs.
        name: of this run.
        side: stock or ours.
        size: a key of ARCHS.
        setting: of the run.
        synchronize: measure parts on a GPU.
        idle: measure the share of time in which the device computes nothing, after the warm-up.

    Raises:
        UserError: the training failed; names its log.
    """
    report, log = work / "runs" / f"{name}.json", work / "logs" / f"{name}.log"
    for folder in (report.parent, log.parent):
        folder.mkdir(parents=True, exist_ok=True)
    command = setting.command(side, size)
    saves_memory = "--checkpoint-activations" in command
    flags = ["--synchronize"] if synchronize else []
    flags += [f"--idle-after={setting.warm_up}"] if idle else []
    # Both sides have all of it in their keys, so that they are always measured in turn.
    key = {"command": command, "threads": setting.threads, "flags": flags}
    key |= {"kernels": setting.kernels, "code": _plugin_digest()}
    data = [*setting.data.glob("dict.*"), *setting.data.glob("train.*.idx")]
    key["data"] = _digest(data)
    key |= {"processor": processor.description(), "torch": importlib.metadata.version("torch")}
    if report.is_file():
        found = read_json(report, "remove it, and the training is run again")
        if found["key"] == key:
            print(f"{name}: done before", file=sys.stderr, flush=True)
            return found
    print(f"{name}: training ...", file=sys.stderr, flush=True)
    once, raw = ROOT / "recipes" / "benchmarks" / "train_once.py", report.with_suffix(".raw")
    with open(log, "wb") as stream:
        done = subprocess.run(
            # The environment's: the shell script has activated it.
            ["python", once, raw, *flags, "--", *command, "--save-dir", work / "crash"],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            env=os.environ
            | ({"GLIBC_TUNABLES": SAVING_ALLOCATOR} if saves_memory else {})
            | {"OMP_NUM_THREADS": str(setting.threads), "PYTHONPATH": str(ROOT)}
            | {"VASWANI_KERNELS": setting.kernels},
        )
    if done.returncode:
        last = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
        raise UserError(f"fairseq-train failed (exit code {done.returncode}), see {log}: {last}")
    found = {"key": key, **json.loads(raw.read_text(encoding="utf-8"))}
    if len(found["updates"]) != setting.warm_up + setting.updates:
        raise UserError(f"{log}: {len(found['updates'])} updates were seen; give more data")
    write_json(report, found)
    raw.unlink()
    return found


def _plugin_digest() -> str:
    return _digest(PLUGIN.rglob("*.py"))


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def synthetic_data(folder: Path, vocabulary: int, sentences: int = SYNTHETIC_SENTENCES) -> Path:
    """A data-bin of random tokens whose sentences are as long as newstest's; made once.

    Args:
        folder: folder to write.
        vocabulary: rows of the joined dictionary.
        sentences: of the training set.
    """
    if (folder / "complete").is_file():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    words = [f"w{number}" for number in range(vocabulary - len(SPECIAL_SYMBOLS))]
    rng = np.random.default_rng(1)
    for split, count in (("train", sentences), ("valid", 8)):
        source = rng.lognormal(*SOURCE_LENGTH, count)
        target = source * rng.lognormal(*TARGET_OVER_SOURCE, count)
        for language, lengths in (("source", source), ("target", target)):
            text = folder / f"text.{language}"
            with write_atomically(text) as write:
                for length in lengths.round().clip(1, LONGEST).astype(int):
                    write(" ".join(words[i] for i in rng.integers(len(words), size=length)))
            prefix = folder / f"{split}.source-target.{language}"
            binarize(str(text), prefix, words, workers=1)
            text.unlink()
    for language in ("source", "target"):
        write_dictionary([(word, 1) for word in words], folder / f"dict.{language}.txt")
    (folder / "complete").touch()
    return folder


def add_measured(parser: argparse.ArgumentParser, updates: int) -> None:
    """Add --max-tokens, --updates (with this default) and --repetitions."""
    batch = "tokens in a batch, padding included (default: 4096)"
    parser.add_argument("--max-tokens", type=int, default=4096, help=batch)
    measured = f"updates to measure, after the warm-up (default: {updates})"
    parser.add_argument("--updates", type=int, default=updates, help=measured)
    parser.add_argument("--repetitions", type=int, default=3, help="(default: 3)")


def options(prog: str, description: str) -> argparse.ArgumentParser:
    """The options that all these benchmarks share."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument(
        "--data", required=True, help="a folder of binarized data, or synthetic for random tokens"
    )
    parser.add_argument(
        "--vocabulary",
        type=int,
        default=37_000,
        help="vocabulary size of synthetic data (default: 37000)",
    )
    parser.add_argument("--work", type=Path, default=ROOT / "work" / prog.removesuffix(".sh"))
    parser.add_argument("--sizes", nargs="+", choices=ARCHS, default=["tiny"])
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument(
        "--warm-up", type=int, default=5, help="first updates, which are not measured (default: 5)"
    )
    parser.add_argument(
        "--ours-flags",
        default="",
        help="further flags for our training, such as --ours-flags=--compile",
    )
    return parser


def check(args: argparse.Namespace, counts: Iterable[str]) -> None:
    """Check the options.

    Args:
        args: of `options`.
        counts: names of the options that must be at least 1.

    Raises:
        UserError: a value that can't run; names the flag.
    """
    for name in (*counts, "threads"):
        values = getattr(args, name)
        for value in values if isinstance(values, list) else [values]:
            if value < 1:
                raise UserError(f"--{name.replace('_', '-')} {value}: must be at least 1")
    if args.warm_up < 0:
        raise UserError(f"--warm-up {args.warm_up}: must not be negative")
    if args.data == "synthetic":
        if args.vocabulary <= len(SPECIAL_SYMBOLS):
            raise UserError(f"--vocabulary {args.vocabulary}: must be at least 5")
    elif not list(Path(args.data).glob("train.*.bin")):
        raise UserError(f"--data {args.data}: no binarized training data there (train.*.bin)")
    if args.precision == "fp16" and args.device == "cpu":
        raise UserError("--precision fp16: fairseq trains in it on a GPU only; choose bf16")
    if args.device == "gpu":
        import torch

        if not torch.cuda.is_available():
            raise UserError("--device gpu: PyTorch finds none on this machine")


def setting_of(args: argparse.Namespace, max_tokens: int, updates: int) -> Setting:
    """The setting of checked options; makes synthetic data if the options ask for it."""
    data = Path(args.data)
    if args.data == "synthetic":
        data = synthetic_data(args.work / f"synthetic-{args.vocabulary}", args.vocabulary)
    return Setting(
        data.resolve(),
        max_tokens,
        updates,
        args.warm_up,
        args.precision,
        args.device == "gpu",
        args.threads,
        tuple(shlex.split(args.ours_flags)),
    )


def write_result(path: Path, result: dict[str, Any], table: Callable[[dict], str]) -> None:
    """Write the result as JSON, with a description of the machine, and print it as a table."""
    result["machine"] = processor.description()
    if result["device"] == "gpu":
        import torch

        result["machine"] = torch.cuda.get_device_name()
    packages = ("torch", "fairseq-fixed")
    result["versions"] = {name: importlib.metadata.version(name) for name in packages}
    write_json(path, result)
    print(table(result))
    print(f"all figures: {path}")
