"""Ours beside other toolkits: environments, interleaved runs, one table. What peers.sh runs.

Every measurement is a process of its own: a driver of peers/, in its peer's environment, reads a
job (JSON) and writes a report. A report is kept, and its job is not run again unless the job or the
code of the driver changed.
"""

import argparse
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import sacrebleu

sys.path.insert(0, str(Path(__file__).resolve().parent))

from measurement import ROOT, processor_name  # noqa: E402
from peers_table import as_markdown, rows_of  # noqa: E402
from training_runs import ARCHS, PLUGIN, configuration, stock_flags  # noqa: E402

from vaswani_plugin.text.corpus_io import (  # noqa: E402
    InputError,
    read_json,
    read_lines,
    run,
    write_atomically,
)

DRIVERS = ROOT / "recipes" / "benchmarks" / "peers"
BEAM, LENGTH_PENALTY = 4, 0.6


@dataclass(frozen=True)
class Peer:
    """A toolkit.

    Args:
        title: as the table names it.
        driver: file of peers/ without `run_` and `.py`.
        package: whose version the table tells.
        differs: where it departs from the paper's recipe because it can't be told otherwise.
        environment: name of the requirements file; "" for ours.
        trains: whether it trains; if not, it decodes our model.
        quantization: of CTranslate2.
    """

    title: str
    driver: str
    package: str
    differs: str = ""
    environment: str = ""
    trains: bool = True
    quantization: str = "float32"


PEERS = {
    "ours": Peer("ours", "ours", "vaswani-plugin"),
    "stock": Peer(
        "stock fairseq",
        "fairseq",
        "fairseq-fixed",
        "its `transformer` without the plugin; length penalty |Y|^0.6 in the place of "
        "((5+|Y|)/6)^0.6",
    ),
    "huggingface": Peer(
        "Hugging Face transformers",
        "huggingface",
        "transformers",
        "`MarianMTModel`: weights from N(0, 0.02), a bias of the logits, length penalty |Y|^0.6; "
        "the loop around it is plain PyTorch, because its Trainer has neither batches by tokens "
        "nor this schedule",
        "huggingface",
    ),
    "joeynmt": Peer(
        "JoeyNMT",
        "joeynmt",
        "joeynmt",
        "Adam's epsilon is 1e-8; outputs end at 150 subwords",
        "joeynmt",
    ),
    "eole": Peer(
        "eole",
        "eole",
        "eole",
        "pre-norm, as its decoder knows nothing else; outputs end at 150 subwords",
        "eole",
    ),
    "sockeye": Peer(
        "Sockeye",
        "sockeye",
        "sockeye",
        "batches of decoding in sentences, not in tokens; fused projections of keys and values",
        "sockeye",
    ),
    "ctranslate2": Peer(
        "CTranslate2, float32",
        "ctranslate2",
        "ctranslate2",
        "decodes our model; does not train; length penalty |Y|^0.6",
        "ctranslate2",
        trains=False,
    ),
    "ctranslate2-int8": Peer(
        "CTranslate2, int8",
        "ctranslate2",
        "ctranslate2",
        "as float32",
        "ctranslate2",
        trains=False,
        quantization="int8",
    ),
}


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Args:
        rounds: of each interleaved measurement.
        sizes: size -> (tokens of a batch with padding, updates that don't count, updates).
        target_tokens: of the training whose model is scored and decodes.
        quality_batch: tokens of a batch of that training.
        sentences: decoded in batch.
        singles: decoded one at a time.
        timeout: seconds after which a process counts as failed.
    """

    rounds: int = 3
    sizes: dict[str, tuple[int, int, int]] = field(
        default_factory=lambda: {"tiny": (4096, 5, 20), "base": (1024, 2, 10)}
    )
    target_tokens: int = 4_000_000
    quality_batch: int = 4096
    sentences: int = 1000
    singles: int = 200
    timeout: int = 4 * 3600


QUICK = Plan(
    rounds=2,
    sizes={"tiny": (4096, 2, 6), "base": (1024, 1, 3)},
    target_tokens=100_000,
    quality_batch=2048,
    sentences=200,
    singles=20,
    timeout=900,
)
PEAK_RATE = 2.5e-3
"""Peak learning rate of the tiny model, as in recipes/benchmarks/stock_translation.sh."""


@dataclass
class Bench:
    """The settings of a comparison, and what failed so far."""

    work: Path
    data: Path
    pair: tuple[str, str]
    plan: Plan
    threads: int
    failures: list[dict[str, str]] = field(default_factory=list)
    pythons: dict[str, str] = field(default_factory=dict)

    def failed(self, peer: str, what: str) -> bool:
        """Whether the peer has failed at this before."""
        return any(each["peer"] == peer and each["what"] == what for each in self.failures)

    def fail(self, peer: str, what: str, reason: str) -> None:
        """Note a failure and go on."""
        print(f"peers: {PEERS[peer].title}: {what} failed: {reason}", file=sys.stderr, flush=True)
        self.failures.append({"peer": peer, "what": what, "reason": reason})


def make_environment(work: Path, name: str) -> str:
    """The interpreter of an environment that holds the pinned packages and, by a link, all of ours.

    Raises:
        InputError: it can't be made; names the log.
    """
    folder, requirements = work / "envs" / name, DRIVERS / f"requirements-{name}.txt"
    python, log = folder / "bin" / "python", work / "logs" / f"install-{name}.log"
    site, stamp = sysconfig.get_paths()["purelib"], folder / "complete"
    key = f"{site}\n{requirements.read_text(encoding='utf-8')}"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == key:
        return str(python)
    print(f"peers: making the environment of {name} ...", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as stream:

        def step(*command: object) -> None:
            done = subprocess.run(list(map(str, command)), stdout=stream, stderr=stream)
            if done.returncode:
                raise InputError(f"not installed: {last_line(log)} (log: {log})")

        step(sys.executable, "-m", "venv", "--without-pip", folder)
        own = next((folder / "lib").glob("python*/site-packages"))
        (own / "ours.pth").write_text(f"{site}\n", encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-input"]
        step(*pip, "--disable-pip-version-check", "--no-deps", "-r", requirements)
    stamp.write_text(key, encoding="utf-8")
    return str(python)


def last_line(log: Path) -> str:
    """The last error in a log, or its last line."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().split("\n")
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines)[-1].strip()[:300]


def size_of(name: str) -> dict[str, Any]:
    """The numbers of a size; dropout is the paper's 0.1."""
    cfg = configuration(name)
    names = ("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads")
    return {key: getattr(cfg, key) for key in names} | {"dropout": 0.1}


def fairseq_flags(bench: Bench, peer: str, size: str, job: dict[str, Any]) -> list[str]:
    """fairseq-train's flags for ours and for stock."""
    flags = [job["data_bin"], "--cpu", "--max-tokens", str(job["max_tokens"])]
    flags += ["--seed", str(job["seed"]), "--max-update", "1000000000", "--num-workers", "0"]
    flags += ["--label-smoothing", "0.1", "--warmup-updates", str(job["warmup_updates"])]
    flags += ["--no-progress-bar", "--log-interval", "100", "--disable-validation", "--no-save"]
    flags += ["--save-dir", str(Path(job["work"]) / "checkpoints")]
    flags += ["--source-lang", bench.pair[0], "--target-lang", bench.pair[1]]
    if peer == "ours":
        flags += ["--user-dir", str(PLUGIN), "--task", "vaswani_translation"]
        flags += ["--arch", ARCHS[size], "--lr-factor", repr(job["lr_factor"])]
    else:
        flags += stock_flags(size) + ["--lr-scheduler", "inverse_sqrt"]
        flags += ["--lr", repr(job["peak_lr"])]
    return [*flags, "--dropout", str(job["size"]["dropout"])]


def common(bench: Bench, peer: str, name: str, kind: str) -> dict[str, Any]:
    """What jobs of both kinds hold."""
    text = {
        split: [str(bench.data / "bpe" / f"{split}.{language}") for language in bench.pair]
        for split in ("train", "valid", "test")
    }
    work = bench.work / "peers" / PEERS[peer].driver
    return {
        "kind": kind,
        "name": name,
        "work": str(work),
        "text": text,
        "data_bin": str(bench.data / "data-bin"),
        "dictionary": str(bench.data / "data-bin" / f"dict.{bench.pair[0]}.txt"),
        "size": size_of("tiny"),
        "seed": 1,
        "threads": bench.threads,
        "quantization": PEERS[peer].quantization,
    }


def training_job(bench: Bench, peer: str, size: str) -> dict[str, Any]:
    """The job of a training whose speed counts."""
    tokens, warm_up, updates = bench.plan.sizes[size]
    job = common(bench, peer, f"speed-{size}", "train")
    job |= {"size": size_of(size), "max_tokens": tokens, "warm_up": warm_up, "updates": updates}
    return with_rates(bench, peer, size, job | {"save": False}, 400)


def quality_job(bench: Bench, peer: str) -> dict[str, Any]:
    """The job of the training whose model is scored and decodes."""
    tokens, batch = bench.plan.target_tokens, bench.plan.quality_batch
    job = common(bench, peer, "model", "train")
    job |= {"max_tokens": batch, "warm_up": 1, "updates": 1, "target_tokens": tokens}
    # A batch is full to about four fifths; the rate rises for a quarter of the updates.
    warm = max(20, min(400, round(tokens / batch / 0.8 / 4)))
    job |= {"save": True, "model": model_path(bench, peer)}
    return with_rates(bench, peer, "tiny", job, warm)


def with_rates(bench: Bench, peer: str, size: str, job: dict[str, Any], warm: int) -> dict:
    """The job with the learning rate of Eq. 3, in the words of each toolkit."""
    factor = PEAK_RATE * math.sqrt(job["size"]["d_model"] * warm)
    job |= {"warmup_updates": warm, "peak_lr": PEAK_RATE, "lr_factor": factor}
    if PEERS[peer].driver in ("ours", "fairseq"):
        job["flags"] = fairseq_flags(bench, peer, size, job)
    return job


def model_path(bench: Bench, peer: str) -> str:
    """Where the model of the quality training lies: a file or a folder, as the toolkit likes it."""
    maker = peer if PEERS[peer].trains else "ours"
    names = {"ours": "model.pt", "stock": "model.pt", "joeynmt": "model.ckpt"}
    folder = bench.work / "peers" / PEERS[maker].driver
    return str(folder / names.get(maker, "model"))


def decoding_job(bench: Bench, peer: str, mode: str, count: int) -> dict[str, Any]:
    """The job of a decoding: `mode` is batch, one or start."""
    job = common(bench, peer, f"{mode}-{peer}", "decode")
    tokens = 4096
    lengths = [len(line.split()) + 1 for line in read_lines(job["text"]["test"][0])]
    outputs = bench.work / "outputs"
    outputs.mkdir(parents=True, exist_ok=True)
    return job | {
        "model": model_path(bench, peer),
        "beam": BEAM,
        "length_penalty": LENGTH_PENALTY,
        "decode_tokens": tokens,
        "decode_sentences": max(1, round(tokens * len(lengths) / sum(lengths))),
        "sentences": count,
        "one": mode == "one",
        "output": str(outputs / f"{mode}-{peer}.txt"),
    }


def digest(paths: list[Path]) -> str:
    """A sum of the contents of files."""
    found = hashlib.sha256()
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()


def run_job(bench: Bench, peer: str, name: str, what: str, job: dict[str, Any]) -> dict | None:
    """The report of a job; one that finished before is not run again. None where it fails."""
    if bench.failed(peer, what) or bench.failed(peer, "installing"):
        return None
    report, log = bench.work / "runs" / f"{name}.json", bench.work / "logs" / f"{name}.log"
    raw, request = report.with_suffix(".raw"), report.with_suffix(".job")
    for folder in (report.parent, log.parent):
        folder.mkdir(parents=True, exist_ok=True)
    driver = DRIVERS / f"run_{PEERS[peer].driver}.py"
    code = [driver, DRIVERS / "job.py"]
    code += sorted(PLUGIN.rglob("*.py")) if peer == "ours" else []
    key = {"job": job, "code": digest(code)}
    if report.is_file():
        found = read_json(report, "remove it, and it is measured again")
        if found["key"] == key:
            return found
    print(f"peers: {name} ...", file=sys.stderr, flush=True)
    with write_atomically(request) as write:
        write(json.dumps(job | {"report": str(raw)}))
    reason, start = "", time.perf_counter()
    with open(log, "wb") as stream:
        try:
            done = subprocess.run(
                [bench.pythons[peer], str(driver), str(request)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env=environment(bench, peer),
                timeout=bench.plan.timeout,
            )
            if done.returncode:
                reason = f"exit code {done.returncode}: {{}}"
        except subprocess.TimeoutExpired:
            reason = f"not done after {bench.plan.timeout} s: {{}}"
    wall = time.perf_counter() - start
    if reason or not raw.is_file():
        end = f"{last_line(log)} (log: {log})"
        bench.fail(peer, what, reason.format(end) if reason else f"no report: {end}")
        return None
    found = {"key": key, "wall": wall, **json.loads(raw.read_text(encoding="utf-8"))}
    with write_atomically(report) as write:
        write(json.dumps(found))
    raw.unlink()
    return found


def environment(bench: Bench, peer: str) -> dict[str, str]:
    """Variables of a peer's process: the same for all, but for where the plugin lies."""
    changes = {"OMP_NUM_THREADS": str(bench.threads), "MKL_NUM_THREADS": str(bench.threads)}
    # Checkpoints of stock fairseq, JoeyNMT and Sockeye hold more than PyTorch loads by default.
    changes |= {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1", "PYTHONUTF8": "1"}
    changes |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    with_plugin = PEERS[peer].driver in ("ours", "ctranslate2")
    changes["PYTHONPATH"] = str(ROOT) if with_plugin else ""
    return os.environ | changes


def interleaved(
    bench: Bench, peers: list[str], what: str, make: Callable[[str], dict[str, Any]]
) -> dict[str, list[dict]]:
    """`rounds` reports of each peer that can do it; the peers take turns."""
    found: dict[str, list[dict]] = {peer: [] for peer in peers}
    for number in range(1, bench.plan.rounds + 1):
        for peer in peers:
            name = f"{what.replace(' ', '-')}-{peer}-{number}"
            report = run_job(bench, peer, name, what, make(peer))
            if report is not None:
                found[peer].append(report)
    return found


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
        except InputError as error:
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
        "machine": processor_name(),
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
        InputError: it holds no binarized text with subwords in bpe/; says how to make it.
    """
    remedy = "make it by: bash recipes/multi30k.sh --stop-stage binarize --work DIR"
    found = sorted((data / "data-bin").glob("train.*-*.*.idx"))
    if not found:
        raise InputError(f"--data {data}: no data-bin/train.*.idx there; {remedy}")
    source, _, target = found[0].name.split(".")[1].partition("-")
    for split in ("train", "valid", "test"):
        for language in (source, target):
            for folder in ("bpe", "tok") if split == "test" else ("bpe",):
                path = data / folder / f"{split}.{language}"
                if not path.is_file():
                    raise InputError(f"--data {data}: {path} is missing; {remedy}")
    return source, target


def options() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="peers.sh", description=__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="WORK of recipes/multi30k.sh, binarized"
    )
    parser.add_argument("--work", type=Path, default=ROOT / "work" / "peers")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--quick", action="store_true", help="15 minutes on two free cores")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, help="of each measurement; default 3, quick 2")
    parser.add_argument("--target-tokens", type=int, help="of the training for perplexity and BLEU")
    parser.add_argument("--sizes", nargs="+", choices=ARCHS, help="default: tiny base")
    return parser


def plan_of(args: argparse.Namespace) -> Plan:
    """The plan of the options.

    Raises:
        InputError: a value that can't run; names the flag.
    """
    for name in ("threads", "rounds", "target_tokens"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise InputError(f"--{name.replace('_', '-')} {value}: must be at least 1")
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
        raise InputError("--peers: ctranslate2 decodes our model; add ours")
    result = compare(bench, args.peers)
    table = as_markdown(result)
    with write_atomically(bench.work / "peers.json") as write:
        write(json.dumps(result, indent=2))
    with write_atomically(bench.work / "peers.md") as write:
        write(table)
    print(table)
    print(f"all figures: {bench.work / 'peers.json'}")


if __name__ == "__main__":
    run(main)
