"""The jobs of peers.sh: what a driver of peers/ is told to train or to decode."""

import math
from pathlib import Path
from typing import Any

from peers_plan import BEAM, LENGTH_PENALTY, PEERS, Bench
from training_runs import ARCHS, PLUGIN, configuration, stock_flags

from vaswani_plugin.text.lines import read_lines

PEAK_RATE = 2.5e-3
"""Peak learning rate of the tiny model, as in recipes/experiments/stock.tsv."""


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
