"""Cost of a training step by sentence length, batch size, layers and vocabulary size.

Runs forward and backward passes of our model on batches without padding; run by scaling.sh. The
cost is CPU time, which other programs hardly change; on a GPU it is wall time. A cost that grows
as x^p is a straight line of slope p in the plot, whose axes are logarithmic.

Axes: B sentences, T positions of a sentence, H heads, K d_k.
"""

import argparse
import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary
from measurement import ROOT

from vaswani_plugin.errors import UserError, run
from vaswani_plugin.fairseq_plugin.criterion import VaswaniLabelSmoothing
from vaswani_plugin.fairseq_plugin.models.transformer import VaswaniTransformer
from vaswani_plugin.figures.figures import new_figure, save_figure
from vaswani_plugin.figures.flops import TRAINING_PASSES, forward_flops
from vaswani_plugin.model.architectures import ARCHITECTURES, row_of
from vaswani_plugin.model.configuration import Configuration
from vaswani_plugin.modules.attention import scaled_dot_product_attention
from vaswani_plugin.modules.feed_forward import FeedForward
from vaswani_plugin.text.outputs import write_json

TABLE_1 = {"Eq. 1, n^2 d": 1, "feed-forward, n d^2": 0}
"""Powers of n in the cost of a token: one less than in the cost of a sentence."""


def configuration(arch: str, longest: int) -> Configuration:
    """A row's configuration, for sentences of up to `longest` positions."""
    limits = {"max_source_positions": longest, "max_target_positions": longest}
    return Configuration(**row_of(arch).changes, **limits)


def seconds(step: Callable[[], torch.Tensor], device: torch.device, repetitions: int) -> float:
    """Seconds of the fastest of some runs, forward and backward, after a warm-up."""
    cuda = device.type == "cuda"
    clock = time.perf_counter if cuda else time.process_time
    times = []
    for _ in range(1 + repetitions):
        if cuda:
            torch.cuda.synchronize()
        start = clock()
        step().backward()
        if cuda:
            torch.cuda.synchronize()
        times.append(clock() - start)
    return min(times[1:])


def training_step(
    cfg: Configuration, vocabulary: int, sentences: int, length: int, device
) -> Callable[[], torch.Tensor]:
    """A function that returns the loss of a batch of random tokens, S equal to T."""
    dictionary = Dictionary()
    for number in range(vocabulary - len(dictionary)):
        dictionary.add_symbol(f"w{number}")
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model = VaswaniTransformer.build_model(cfg, task).to(device).train()
    criterion = VaswaniLabelSmoothing(task, False, 0.1, False, False)
    tokens = torch.randint(dictionary.nspecial, vocabulary, (3, sentences, length), device=device)
    source, previous, target = tokens  # (B, T) each
    lengths = torch.full((sentences,), length, device=device)
    inputs = {"src_tokens": source, "src_lengths": lengths, "prev_output_tokens": previous}
    sample = {"net_input": inputs, "target": target, "ntokens": sentences * length}
    return lambda: criterion(model, sample)[0]


def layer_steps(
    cfg: Configuration, sentences: int, length: int, device
) -> dict[str, Callable[[], torch.Tensor]]:
    """Functions for the two kinds of cost of Table 1: Eq. 1 for all heads, and Eq. 2."""
    width = cfg.d_model // cfg.heads
    shape = (sentences, cfg.heads, length, width)  # (B, H, T, K)
    q, k, v = (torch.randn(shape, device=device, requires_grad=True) for _ in range(3))
    network = FeedForward(cfg.d_model, cfg.d_ff).to(device)
    x = torch.randn(sentences, length, cfg.d_model, device=device, requires_grad=True)
    steps = (lambda: scaled_dot_product_attention(q, k, v)[0].sum(), lambda: network(x).sum())
    return dict(zip(TABLE_1, steps, strict=True))


def exponent(xs: list[float], ys: list[float]) -> float:
    """The slope of a straight line through the points, both axes logarithmic."""
    return round(float(np.polyfit(np.log(xs), np.log(ys), 1)[0]), 3) + 0.0  # not -0.0


def axis(args: argparse.Namespace, name: str, values: list[int], device) -> dict[str, Any]:
    """Cost of a target token at each value of one quantity, with defaults for the others."""
    base = configuration(args.arch, max(args.lengths))
    points = []
    for value in values:
        print(f"{name} {value} ...", file=sys.stderr, flush=True)
        layers = value if name == "layers" else base.encoder_layers
        cfg = replace(base, encoder_layers=layers, decoder_layers=layers)
        length = value if name == "length" else args.length
        # Length varies at a constant number of tokens, because the batch is an axis of its own.
        sentences = value if name == "batch" else max(1, args.tokens // length)
        vocabulary = value if name == "vocabulary" else args.vocabulary
        steps = {"model": training_step(cfg, vocabulary, sentences, length, device)}
        if name == "length":
            steps |= layer_steps(cfg, sentences, length, device)
        tokens = sentences * length
        shape = sentences, length, length
        flops = forward_flops("vaswani_transformer", vars(cfg), vocabulary, shape)
        points.append(
            {
                "value": value,
                "sentences": sentences,
                "flops_per_token": TRAINING_PASSES * flops / tokens,
                "seconds_per_token": {
                    what: seconds(step, device, args.repetitions) / tokens
                    for what, step in steps.items()
                },
            }
        )
    curves = points[0]["seconds_per_token"]
    return {
        "points": points,
        "measured_exponent": {
            what: exponent(values, [p["seconds_per_token"][what] for p in points])
            for what in curves
        },
        "expected_exponent": {
            "model": exponent(values, [point["flops_per_token"] for point in points]),
            **{what: power for what, power in TABLE_1.items() if what in curves},
        },
    }


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw one panel a quantity: measured costs, and expected ones as dashed lines."""
    figure = new_figure(11, 8)
    for panel, (name, found) in zip(
        figure.subplots(2, 2).flat, result["axes"].items(), strict=True
    ):
        values = [point["value"] for point in found["points"]]
        for number, (what, power) in enumerate(found["measured_exponent"].items()):
            costs = np.array([point["seconds_per_token"][what] for point in found["points"]])
            expected = found["expected_exponent"][what]
            if what == "model":
                curve = np.array([point["flops_per_token"] for point in found["points"]])
            else:
                curve = np.array(values, dtype=float) ** expected
            curve *= np.exp(np.log(costs).mean() - np.log(curve).mean())
            label = f"{what}: exponent {power:.2f}, expected {expected:.2f}"
            panel.plot(values, 1e6 * costs, "o-", color=f"C{number}", label=label)
            panel.plot(values, 1e6 * curve, "--", color=f"C{number}")
        panel.set(xscale="log", yscale="log", xlabel=name, ylabel="microseconds a target token")
        panel.set_xticks(values, [f"{value:,}" for value in values], minor=False)
        panel.set_xticks([], minor=True)
        panel.grid(True, which="both", alpha=0.3)
        panel.legend(fontsize="small")
    figure.suptitle(f"{result['arch']}, a training step; dashed: by counting, and Table 1")
    save_figure(figure, path)


def options() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="scaling.sh", description=__doc__)
    archs = [row.name for row in ARCHITECTURES]
    parser.add_argument("--arch", choices=archs, default="vaswani_tiny", metavar="ARCH")
    counts = {"nargs": "+", "type": int, "metavar": "N"}
    parser.add_argument("--lengths", **counts, default=[16, 32, 64, 128, 256, 512, 1024])
    parser.add_argument("--batches", **counts, default=[1, 4, 16, 64])
    parser.add_argument("--layers", **counts, default=[1, 2, 4, 8])
    parser.add_argument("--vocabularies", **counts, default=[1000, 4000, 16000, 64000])
    parser.add_argument(
        "--length", type=int, default=32, help="sentence length, if fixed (default: 32)"
    )
    parser.add_argument(
        "--tokens", type=int, default=1024, help="tokens in a batch, if fixed (default: 1024)"
    )
    parser.add_argument(
        "--vocabulary", type=int, default=8000, help="size, if fixed (default: 8000)"
    )
    parser.add_argument(
        "--repetitions", type=int, default=3, help="runs, of which the fastest counts (default: 3)"
    )
    parser.add_argument("--threads", type=int, default=1, help="(default: 1)")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--work", type=Path, default=ROOT / "work" / "scaling")
    return parser


def check(args: argparse.Namespace) -> None:
    """Check the options.

    Raises:
        UserError: a value that can't run; names the flag.
    """
    for name in ("lengths", "batches", "layers", "vocabularies"):
        if len(getattr(args, name)) < 2 or len(set(getattr(args, name))) < 2:
            raise UserError(f"--{name}: an exponent needs at least two values")
    for name, value in vars(args).items():
        least = 5 if name in ("vocabulary", "vocabularies") else 1
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, int) and each < least:
                raise UserError(f"--{name} {each}: must be at least {least}")
    if args.device == "gpu" and not torch.cuda.is_available():
        raise UserError("--device gpu: PyTorch finds none on this machine")


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    args = options().parse_args(argv)
    check(args)
    args.work.mkdir(parents=True, exist_ok=True)
    # fairseq's tasks set the root logger to DEBUG. At this level matplotlib logs all its fonts.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    threads = torch.get_num_threads()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    device = torch.device("cuda" if args.device == "gpu" else "cpu")
    axes = {
        "length": args.lengths,
        "batch": args.batches,
        "layers": args.layers,
        "vocabulary": args.vocabularies,
    }
    result = {
        "benchmark": "scaling",
        "arch": args.arch,
        "device": args.device,
        "threads": args.threads,
        "axes": {name: axis(args, name, values, device) for name, values in axes.items()},
    }
    torch.set_num_threads(threads)
    write_json(args.work / "scaling.json", result)
    draw(result, args.work / "scaling.png")
    for name, found in result["axes"].items():
        for what, power in found["measured_exponent"].items():
            expected = found["expected_exponent"][what]
            print(f"{name:11}{what:22}measured exponent {power:6.2f}, expected {expected:6.2f}")
    print(f"all figures: {args.work / 'scaling.json'}, plot: {args.work / 'scaling.png'}")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    run(main)
