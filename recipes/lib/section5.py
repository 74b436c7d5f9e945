"""Trains and measures what recipes/section5.sh compares, and prints it.

    section5.py smoothing penalty --work W --data-bin D --data-key K --seeds 1,2,3 --parallel 2 ...

Every figure is of the validation set. Each training has WORK/models/NAME with logs/train.log,
checkpoints/, outputs/ and, once it is finished, result.json; translations that are there are not
made again. Writes WORK/section5.md, .png and result.json.
"""

import argparse
import math
import shlex
from pathlib import Path
from typing import Any

from result import provenance
from section5_report import Columns, as_markdown, draw, summary
from section5_trainings import ORDERS, Training, batches
from trainings import (
    Devices,
    begin,
    dictionaries_of,
    execute,
    finished,
    last_validation,
    progress_of,
    subword_flag,
    training_command,
    translation_command,
)

from vaswani_plugin.errors import UserError, run
from vaswani_plugin.metrics.bleu import tokenized_score
from vaswani_plugin.metrics.segments import read_generate_output
from vaswani_plugin.text.lines import read_lines
from vaswani_plugin.text.outputs import write_atomically, write_json

say = progress_of("section5")
PARTS = ("smoothing", "averaging", "penalty", "order", "warmup")
SMOOTHINGS = (0.0, 0.1, 0.2)
AVERAGED = (1, 2, 3, 5, 10)
"""Numbers of checkpoints."""
PENALTIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.4)
"""Alpha, the exponent of the length penalty."""
WARMUPS = (1 / 16, 1 / 4, 1.0)
"""Of --warmup-updates."""
FACTORS = (0.25, 1.0, 4.0, 16.0)
"""Of --lr-factor."""
SAVES = 20  # checkpoints of a training; the last ten are kept
SHORTER = 4  # a training of the grid of warm-ups has this part of the updates


def smoothed(args: argparse.Namespace, smoothing: float, seed: int) -> Training:
    """The training with a label smoothing and a seed."""
    name = f"smoothing-{smoothing:g}-seed-{seed}"
    return Training(name, args.max_update, args.warmup_updates, args.lr_factor, smoothing, seed)


def ordered(args: argparse.Namespace, order: str, seed: int) -> Training:
    """The training with an order of batches and a seed.

    The updates are such that a training in either order sees the same number of target tokens.
    """
    if order == ORDERS[0]:
        return smoothed(args, 0.1, seed)
    usual, here = (batches(args.data_bin, each, args.max_tokens) for each in (ORDERS[0], order))
    updates = round(args.max_update * here / usual)
    name = f"order-{order}-seed-{seed}"
    return Training(name, updates, args.warmup_updates, args.lr_factor, 0.1, seed, order)


def train(training: Training, args: argparse.Namespace) -> dict[str, Any]:
    """Trains, if it is not finished; returns the validation perplexity and the vocabulary's size.

    Raises:
        UserError: fairseq-train failed.
    """
    folder = args.work / "models" / training.name
    flags = training.flags(args)
    key = f"data {args.data_key} gpus {args.devices.gpus_each} {' '.join(flags)}"
    found = finished(folder, key)
    if found is not None:
        return found
    say(f"{training.name} begins: {folder / 'logs' / 'train.log'}")
    begin(folder, key, say)
    flags += ["--save-interval-updates", str(max(1, training.updates // SAVES))]
    flags += ["--keep-interval-updates", str(max(AVERAGED))]
    command = training_command(args.data_bin, flags, folder, args.devices.gpus_each)
    log, trained = folder / "logs" / "train.log", folder / "trained"
    if not trained.exists():  # fairseq-train would add an update to a complete training
        with args.devices.share() as environment:
            execute(command, log, environment)
        trained.touch()
    ppl = last_validation(log, training.updates)["ppl"]
    result = {"key": key, "ppl": ppl, "command": shlex.join(command)}
    write_json(folder / "result.json", result)
    say(f"{training.name}: validation PPL {result['ppl']:.2f}")
    return result


def translate(
    training: Training, args: argparse.Namespace, averaged: int = 1, alpha: float = 0.6
) -> dict[str, float]:
    """Translates the validation set with a finished training.

    Args:
        training: finished.
        args: of the command line.
        averaged: the weights are the mean of so many last checkpoints.
        alpha: exponent of the length penalty.

    Returns:
        bleu, and length: the output's tokens over the references'.

    Raises:
        UserError: a command failed.
    """
    folder = args.work / "models" / training.name
    checkpoint = folder / "checkpoints" / "checkpoint_last.pt"
    log = folder / "outputs" / f"average-{averaged}.log"
    if averaged > 1:
        inputs, checkpoint = checkpoint.parent, folder / "outputs" / f"average-{averaged}.pt"
        if not checkpoint.exists():
            command = ["vaswani", "average", "--inputs", str(inputs)]
            command += ["--last-updates", str(averaged), "--output", str(checkpoint)]
            with args.devices.share() as environment:
                execute(command, log, environment)
    output = folder / "outputs" / f"average-{averaged}-beam-{args.beam}-alpha-{alpha:g}.txt"
    if not output.exists():
        partial = output.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        search = ["--beam", str(args.beam), "--lenpen", f"{alpha:g}"]
        given = checkpoint, "valid", search, args.post_process, args.devices.gpus_each
        command = translation_command(args.data_bin, *given)
        with args.devices.share() as environment:
            execute(command, partial, environment)
        partial.rename(output)
    found = read_generate_output(output)
    score = tokenized_score(found.hypotheses, [found.references])
    words = [
        sum(len(line.split()) for line in side) for side in (found.hypotheses, found.references)
    ]
    return {"bleu": score, "length": words[0] / words[1]}


def perplexities(trainings: list[Training], args: argparse.Namespace) -> list[float]:
    """Validation perplexity of each training, which is trained first where it is not finished.

    A training that is named twice is trained once.
    """
    different = list(dict.fromkeys(trainings))
    found = args.devices.map(lambda each: train(each, args)["ppl"], different)
    ppl = dict(zip(different, found, strict=True))
    return [ppl[training] for training in trainings]


def translations(
    trainings: list[Training], args: argparse.Namespace, **settings: Any
) -> dict[str, list[float]]:
    """What `translate` returns for finished trainings: a list for each of its figures."""
    found = args.devices.map(lambda each: translate(each, args, **settings), trainings)
    return {name: [figures[name] for figures in found] for name in ("bleu", "length")}


def perplexity_and_bleu(rows: list[list[Training]], args: argparse.Namespace) -> Columns:
    """PPL and BLEU of rows of trainings; all are trained before the first is translated."""
    ppl = iter(perplexities([training for row in rows for training in row], args))
    columns: Columns = {"PPL": [[next(ppl) for _ in row] for row in rows]}
    return columns | {"BLEU": [translations(row, args)["bleu"] for row in rows]}


def smoothing(args: argparse.Namespace) -> Columns:
    """Perplexity and BLEU over the label smoothing (section 5.4)."""
    rows = [[smoothed(args, value, seed) for seed in args.seeds] for value in SMOOTHINGS]
    return {"label smoothing": list(SMOOTHINGS)} | perplexity_and_bleu(rows, args)


def averaging(args: argparse.Namespace) -> Columns:
    """BLEU over the number of averaged checkpoints (section 6.1)."""
    trainings = [smoothed(args, 0.1, seed) for seed in args.seeds]
    perplexities(trainings, args)
    bleu = [translations(trainings, args, averaged=number)["bleu"] for number in AVERAGED]
    return {"averaged checkpoints": list(AVERAGED), "BLEU": bleu}


def penalty(args: argparse.Namespace) -> Columns:
    """BLEU and length over the exponent of the length penalty (section 6.1)."""
    trainings = [smoothed(args, 0.1, seed) for seed in args.seeds]
    perplexities(trainings, args)
    found = [translations(trainings, args, alpha=alpha) for alpha in PENALTIES]
    columns: Columns = {"alpha": list(PENALTIES)}
    columns["BLEU"] = [row["bleu"] for row in found]
    columns["length / reference"] = [row["length"] for row in found]
    return columns


def order(args: argparse.Namespace) -> Columns:
    """Perplexity and BLEU over the order of batches (section 5.1).

    The state after one update leans towards the lengths of the last batches: by one update it may
    win or lose some percent of perplexity. The mean of the last 10 checkpoints doesn't.
    """
    rows = [[ordered(args, value, seed) for seed in args.seeds] for value in ORDERS]
    columns: Columns = {"order of batches": list(ORDERS)}
    columns["updates"] = [row[0].updates for row in rows]
    columns |= perplexity_and_bleu(rows, args)
    columns["BLEU, 10 averaged"] = [translations(row, args, averaged=10)["bleu"] for row in rows]
    return columns


def warmup(args: argparse.Namespace) -> Columns:
    """Perplexity over warm-up and factor of the learning rate (section 5.3), one seed."""
    columns: Columns = {"warm-up": [], "factor": [], "highest rate / default": [], "PPL": []}
    trainings = []
    for share in WARMUPS:
        for times in FACTORS:
            updates = max(1, round(args.warmup_updates * share))
            factor = args.lr_factor * times
            name = f"warmup-{updates}-factor-{factor:g}"
            shorter = max(1, args.max_update // SHORTER)
            trainings.append(Training(name, shorter, updates, factor, 0.1, args.seeds[0]))
            columns["warm-up"].append(updates)
            columns["factor"].append(factor)
            rate = times * math.sqrt(args.warmup_updates / updates)
            columns["highest rate / default"].append(rate)
    columns["PPL"] = [[ppl] for ppl in perplexities(trainings, args)]
    return columns


def vocabulary_size(data_bin: Path) -> int:
    """Types of the target's dictionary, the four special symbols counted.

    Raises:
        UserError: the folder has no dictionary.
    """
    return 4 + max(sum(1 for _ in read_lines(path)) for path in dictionaries_of(data_bin))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"of {' '.join(PARTS)} (default: all)")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--data-bin", type=Path, required=True)
    parser.add_argument("--data-key", required=True, help="changes with the data")
    parser.add_argument("--title", required=True, help="what is trained on")
    parser.add_argument("--arch", required=True)
    parser.add_argument("--seeds", required=True, help="such as 1,2,3")
    for name in ("max-tokens", "max-update", "warmup-updates", "beam"):
        parser.add_argument("--" + name, type=int, required=True)
    for name in ("threads", "gpus", "parallel"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--lr-factor", type=float, required=True)
    args = parser.parse_args()
    for name in args.parts:
        if name not in PARTS:
            raise UserError(f"{name}: no part; the parts are {' '.join(PARTS)}")
    args.seeds = [int(seed) for seed in args.seeds.split(",")]
    args.devices = Devices(args.parallel, args.gpus, args.threads)
    types = vocabulary_size(args.data_bin)
    args.post_process = subword_flag(args.data_bin)
    measures = (smoothing, averaging, penalty, order, warmup)
    found = {
        name: measure(args)
        for name, measure in zip(PARTS, measures, strict=True)
        if not args.parts or name in args.parts
    }
    heading = (
        f"# Section 5's choices on {args.title}\n\n{args.arch}, {args.max_update:,} updates of "
        f"{args.max_tokens:,} tokens, seeds {', '.join(map(str, args.seeds))}; all figures are of "
        f"the validation set, beam {args.beam}; \u00b1 is the standard error over seeds.\n"
    )
    tables = [as_markdown(part, columns, types) for part, columns in found.items()]
    with write_atomically(args.work / "section5.md") as write:
        write("\n".join([heading, *tables]).removesuffix("\n"))
    draw(found, types, args.work / "section5.png")
    content = {"recipe": "section5", "title": args.title, "parts": found, **provenance()}
    others = ("work", "parts", "devices", "post_process")
    content |= {"settings": {k: str(v) for k, v in vars(args).items() if k not in others}}
    content["summary"] = f"section 5, {args.title}: {summary(found)}"
    write_json(args.work / "result.json", content)


if __name__ == "__main__":
    run(main)
