"""Speed and memory of training, our transformer and fairseq's; run by training.sh.

Both have the same sizes, data, batches, threads, precision, loss and optimizer. Each run is a
process.
"""

import argparse
import statistics
from typing import Any

from train_once import PARTS
from training_runs import (
    SIDES,
    Setting,
    add_measured,
    check,
    configuration,
    options,
    run_training,
    setting_of,
    write_result,
)

from vaswani_plugin.errors import run

TORCH_NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def figures(report: dict[str, Any], warm_up: int) -> dict[str, float]:
    """The figures of one run, without its first `warm_up` updates."""
    updates = report["updates"][warm_up:]

    def total(key: str) -> float:
        return sum(update[key] for update in updates)

    real = total("source") + total("target")
    return {
        "tokens_per_second": total("target") / (total("wait") + total("seconds")),
        "tokens_per_cpu_second": total("target") / total("cpu_seconds"),
        "peak_mib": report["peak_bytes"] / 2**20,
        "libraries_mib": report["libraries_bytes"] / 2**20,
        "padded_percent": 100 * (1 - real / total("padded")),
        "last_loss": updates[-1]["loss"],
    }


def milliseconds_by_part(report: dict[str, Any], warm_up: int) -> dict[str, float]:
    """Milliseconds of an average update by part; `data` is waiting for its batch (and logging)."""
    updates = report["updates"][warm_up:]
    parts = {name: sum(u["parts"][name] for u in updates) for name in PARTS}
    parts["rest"] = sum(u["seconds"] for u in updates) - sum(parts.values())
    parts["data"] = sum(u["wait"] for u in updates)
    return {name: round(1000 * seconds / len(updates), 2) for name, seconds in parts.items()}


def summary(reports: list[dict[str, Any]], warm_up: int) -> dict[str, Any]:
    """Median, lowest and highest of several runs of one side."""
    rows = [figures(report, warm_up) for report in reports]
    return {
        name: {
            "median": round(statistics.median(row[name] for row in rows), 3),
            "lowest": round(min(row[name] for row in rows), 3),
            "highest": round(max(row[name] for row in rows), 3),
        }
        for name in rows[0]
    }


def floor(report: dict[str, Any], size: str, setting: Setting) -> dict[str, float]:
    """The cost of the updates if only their matrix products took time, at the best rate."""
    import torch
    from matrix_rate import matrix_rate

    from vaswani_plugin.figures.flops import (
        LENGTH_SUMS,
        TRAINING_PASSES,
        flops_of_lengths,
        forward_flops,
    )

    updates = report["updates"][setting.warm_up :]
    sums = {name: sum(update[name] for update in updates) for name in LENGTH_SUMS}
    vocabulary = 4 + next(setting.data.glob("dict.*.txt")).read_bytes().count(b"\n")
    settings = vars(configuration(size))

    def count(source: int, target: int) -> int:
        return forward_flops("vaswani_transformer", settings, vocabulary, (1, source, target))

    flops = TRAINING_PASSES * flops_of_lengths(count, sums)
    threads = torch.get_num_threads()
    torch.set_num_threads(setting.threads)
    device = torch.device("cuda" if setting.gpu else "cpu")
    rate = matrix_rate(device, getattr(torch, TORCH_NAMES[setting.precision]))
    torch.set_num_threads(threads)
    return {
        "flops_per_update": flops / len(updates),
        "matrix_flops_per_second": rate,
        "milliseconds_per_update": 1000 * flops / len(updates) / rate,
        "tokens_per_second": sums["target"] * rate / flops,
    }


def compare(args: argparse.Namespace, size: str, setting: Setting) -> dict[str, Any]:
    """Run both sides of one size in turn, and compare them."""
    reports: dict[str, list] = {side: [] for side in SIDES}
    prefix = f"{size}-{args.precision}-{args.device}"
    for repetition in range(1, args.repetitions + 1):
        for side in SIDES:
            name = f"{prefix}-{side}-{repetition}"
            reports[side].append(run_training(args.work, name, side, size, setting))
    # A CPU computes synchronously, so every run has the times of parts.
    timed = {
        side: run_training(args.work, f"{prefix}-{side}-parts", side, size, setting, True)
        if setting.gpu
        else reports[side][-1]
        for side in SIDES
    }
    table = {side: summary(reports[side], setting.warm_up) for side in SIDES}
    for side in SIDES:
        table[side]["milliseconds_by_part"] = milliseconds_by_part(timed[side], setting.warm_up)
    least = floor(reports["ours"][0], size, setting)

    speeds = [
        [figures(report, setting.warm_up)["tokens_per_second"] for report in reports[side]]
        for side in SIDES
    ]
    ratios: dict[str, Any] = {
        key: round(table["ours"][key]["median"] / table["stock"][key]["median"], 3)
        for key in ("tokens_per_second", "tokens_per_cpu_second", "peak_mib")
    }
    ratios["tokens_per_second_by_repetition"] = [
        round(ours / stock, 3) for stock, ours in zip(*speeds, strict=True)
    ]
    return {
        **table,
        "ours_over_stock": ratios,
        "floor": least,
        "percent_of_floor_reached": {
            side: round(
                100 * table[side]["tokens_per_second"]["median"] / least["tokens_per_second"], 1
            )
            for side in SIDES
        },
    }


def as_table(result: dict[str, Any]) -> str:
    """The result as a table."""
    lines = []
    for size, each in result["sizes"].items():
        lines.append(f"{size}: target tokens/s (lowest, highest), peak MiB, ms an update by part")
        for side in SIDES:
            speed, peak = each[side]["tokens_per_second"], each[side]["peak_mib"]["median"]
            parts = each[side]["milliseconds_by_part"]
            named = ", ".join(f"{name} {value:.0f}" for name, value in parts.items())
            spread = f"({speed['lowest']:,.0f}, {speed['highest']:,.0f})"
            lines.append(f"  {side:6}{speed['median']:10,.0f} {spread:20}{peak:8,.0f}  {named}")
        times, reached = each["ours_over_stock"], each["percent_of_floor_reached"]
        lines.append(
            f"  ours over stock: {times['tokens_per_second']} times the speed "
            f"({times['tokens_per_cpu_second']} by CPU time), {times['peak_mib']} of the memory; "
            f"of the floor's speed, {each['floor']['tokens_per_second']:,.0f} tokens/s: "
            f"ours {reached['ours']}%, stock {reached['stock']}%"
        )
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    parser = options("training.sh", __doc__)
    add_measured(parser, updates=20)
    args = parser.parse_args(argv)
    check(args, ("max_tokens", "updates", "repetitions"))
    setting = setting_of(args, args.max_tokens, args.updates)
    names = ("precision", "device", "threads", "max_tokens", "updates", "warm_up", "repetitions")
    result = {"benchmark": "training", "data": args.data, "ours_flags": args.ours_flags}
    result |= {name: getattr(args, name) for name in names}
    result["sizes"] = {size: compare(args, size, setting) for size in args.sizes}
    write_result(args.work / "training.json", result, as_table)


if __name__ == "__main__":
    run(main)
