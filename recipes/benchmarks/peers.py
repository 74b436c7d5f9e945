"""Ours beside other toolkits: environments, interleaved runs, one table. What peers.sh runs.

Every measurement is a process of its own: a driver of peers/, in its peer's environment, reads a
job (JSON) and writes a report.
"""

import argparse
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import sacrebleu
from measurement import ROOT
from peers_jobs import decoding_job, quality_job, training_job
from peers_plan import PEERS, QUICK, Bench, Plan
from peers_runs import interleaved, make_environment, run_job
from peers_table import as_markdown, rows_of
from training_runs import ARCHS

from vaswani_plugin import processor
from vaswani_plugin.errors import UserError, run
from vaswani_plugin.text.dictionary import languages_of
from vaswani_plugin.text.lines import read_lines
from vaswani_plugin.text.outputs import write_atomically, write_json


def tokenized_bleu(bench: Bench, output: Path) -> float:
    """BLEU of joined subwords against the tokenized reference of as many lines."""
    lines = [line.replace("@@ ", "").removesuffix("@@") for line in read_lines(output)]
    reference = list(read_lines(bench.data / "tok" / f"test.{bench.pair[1]}"))[: len(lines)]
    return sacrebleu.corpus_bleu(lines, [reference], tokenize="none", force=True).score


def versions_of(bench: Bench, peers: list[str]) -> dict[str, str]:
    """The version of each peer's package in its environment, and of torch."""
    program = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"
    found = {}
    for peer in peers:
        if peer in bench.pythons:
            command = [bench.pythons[peer], "-c", program, PEERS[peer].package]
            done = subprocess.run(command, capture_output=True, text=True)
            found[PEERS[peer].package] = done.stdout.strip() or "unknown"
    command = [sys.executable, "-c", program, "torch"]
    return found | {"torch": subprocess.run(command, capture_output=True, text=True).stdout.strip()}


def compare(bench: Bench, peers: list[str]) -> dict[str, Any]:
    """Make the environments, run everything, and collect the reports by measurement."""
    for peer in peers:
        try:
            name = PEERS[peer].environment
            bench.pythons[peer] = make_environment(bench.work, name) if name else sys.executable
        except UserError as error:
            bench.fail(peer, "installing", str(error))
    trainers = [peer for peer in peers if PEERS[peer].trains]
    reports: dict[str, dict[str, list[dict]]] = {}
    for size in bench.plan.sizes:

        def speed_job(peer: str, size: str = size) -> dict[str, Any]:
            return training_job(bench, peer, size)

        reports[f"training {size}"] = interleaved(bench, trainers, f"training {size}", speed_job)
    reports["model"] = {}
    for peer in trainers:
        report = run_job(bench, peer, f"model-{peer}", "model", quality_job(bench, peer))
        reports["model"][peer] = [] if report is None else [report]
    ready = [p for p in peers if reports["model"].get(p if PEERS[p].trains else "ours")]
    counts = {"batch": bench.plan.sentences, "one": bench.plan.singles, "start": 1}
    for mode, count in counts.items():

        def decode_job(peer: str, mode: str = mode, count: int = count) -> dict[str, Any]:
            # A model that was trained anew is decoded anew.
            maker = peer if PEERS[peer].trains else "ours"
            trained = reports["model"][maker][0]["nll"]
            return decoding_job(bench, peer, mode, count) | {"nll": trained}

        reports[mode] = interleaved(bench, ready, mode, decode_job)
    bleu = {
        peer: tokenized_bleu(bench, bench.work / "outputs" / f"batch-{peer}.txt")
        for peer in ready
        if reports["batch"][peer]
    }
    return {
        "benchmark": "peers",
        "machine": processor.description(),
        "threads": bench.threads,
        "plan": asdict(bench.plan),
        "versions": versions_of(bench, peers),
        "rows": rows_of(reports, bleu, bench.plan.sizes),
        "titles": {peer: PEERS[peer].title for peer in peers},
        "differs": {PEERS[p].title: PEERS[p].differs for p in peers if PEERS[p].differs},
        "failures": bench.failures,
    }


def pair_of(data: Path) -> tuple[str, str]:
    """Source and target language of a recipe's folder.

    Raises:
        UserError: it holds no binarized text with subwords in bpe/; says how to make it.
    """
    remedy = "make it by: bash recipes/multi30k.sh --until binarize --work DIR"
    languages = languages_of(data / "data-bin")
    if languages is None:
        raise UserError(f"--data {data}: no data-bin/train.*.idx there; {remedy}")
    source, target = languages
    for split in ("train", "valid", "test"):
        for language in (source, target):
            for folder in ("bpe", "tok") if split == "test" else ("bpe",):
                path = data / folder / f"{split}.{language}"
                if not path.is_file():
                    raise UserError(f"--data {data}: {path} is missing; {remedy}")
    return source, target


def options() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="peers.sh", description=__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="WORK of recipes/multi30k.sh, binarized"
    )
    parser.add_argument("--work", type=Path, default=ROOT / "work" / "peers")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument(
        "--quick",
        action="store_true",
        help="about 15 minutes on two free cores; decodes by models that hardly learned",
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, help="of each measurement; default 3, quick 2")
    parser.add_argument("--target-tokens", type=int, help="of the training for perplexity and BLEU")
    parser.add_argument("--sizes", nargs="+", choices=ARCHS, help="default: tiny base")
    return parser


def plan_of(args: argparse.Namespace) -> Plan:
    """The plan of the options.

    Raises:
        UserError: a value that can't run; names the flag.
    """
    for name in ("threads", "rounds", "target_tokens"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')} {value}: must be at least 1")
    plan = QUICK if args.quick else Plan()
    values = asdict(plan)
    for name in ("rounds", "target_tokens"):
        if getattr(args, name) is not None:
            values[name] = getattr(args, name)
    if args.sizes:
        values["sizes"] = {s: plan.sizes.get(s, plan.sizes["tiny"]) for s in args.sizes}
    return Plan(**values)


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    args = options().parse_args(argv)
    plan, data = plan_of(args), args.data.resolve()
    bench = Bench(args.work.resolve(), data, pair_of(data), plan, args.threads)
    if any(not PEERS[peer].trains for peer in args.peers) and "ours" not in args.peers:
        raise UserError("--peers: ctranslate2 decodes our model; add ours")
    result = compare(bench, args.peers)
    table = as_markdown(result)
    write_json(bench.work / "peers.json", result)
    with write_atomically(bench.work / "peers.md") as write:
        write(table)
    print(table)
    print(f"all figures: {bench.work / 'peers.json'}")


if __name__ == "__main__":
    run(main)
