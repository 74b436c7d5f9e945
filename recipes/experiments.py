"""Trains and compares the rows of a file, such as Table 3's, on data that a recipe has binarized.

    bash recipes/multi30k.sh --until binarize
    python recipes/experiments.py table3_small --data work/multi30k/data-bin --cpu --parallel 2
    python recipes/experiments.py section5 smoothing penalty --data DATA --seeds 1,2,3
    python recipes/experiments.py table3 base a b --data DATA --gpus 8 -- --update-freq 8

A file of recipes/experiments/ has a row a line: its name, the flags by which its training differs
from `all`'s, the number of last checkpoints to average, the flags of fairseq-generate, and what is
published. Rows with the same training share it. A name selects a row, its beginning a group ("b").
What is finished is not done again, so that rows and seeds may be added; other data need another
--work. After -- stand more flags of every training.

Each training is validated and translates the validation set. WORK/report.md has means over the
seeds, their standard errors, and the change from the first row, its error that of the differences
seed by seed; WORK/report.png draws it, where matplotlib is. Where trainings are validated with
--eval-bleu, as the ancestors are, a second table says what a BLEU costs in FLOPs (3 forward
passes, padding left out) and in minutes of training, and WORK/costs.png draws it.
"""

import argparse
import csv
import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, pairwise
from pathlib import Path
from queue import SimpleQueue
from statistics import fmean, stdev
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from vaswani_plugin import processor  # noqa: E402
from vaswani_plugin.cli.command import start_fairseq  # noqa: E402
from vaswani_plugin.errors import UserError  # noqa: E402
from vaswani_plugin.figures.curves import COSTS, draw_costs  # noqa: E402
from vaswani_plugin.figures.figures import new_figure, save_figure  # noqa: E402
from vaswani_plugin.files.lines import read_lines  # noqa: E402
from vaswani_plugin.files.outputs import write_atomically, write_json  # noqa: E402
from vaswani_plugin.files.programs import run  # noqa: E402
from vaswani_plugin.metrics.bleu import tokenized_score  # noqa: E402
from vaswani_plugin.metrics.segments import read_segments  # noqa: E402
from vaswani_plugin.text.binary import read_numbers  # noqa: E402
from vaswani_plugin.text.languages import trained_languages  # noqa: E402
from vaswani_plugin.text.training_log import read_training  # noqa: E402

FILES = ROOT / "recipes" / "experiments"
COMMON = "all"
FIGURES = ("PPL", "BLEU")
Results = dict[str, dict[str, list[Any]]]
LEVELS = range(5, 45, 5)  # BLEU of the validation set; the table of costs has a column of each
SAVED = 75  # fairseq-train's exit code, and the recipes', after a signal


@dataclass(frozen=True)
class Row:
    """A line of the file: its training, how it is averaged and translated, what is published."""

    name: str
    train: tuple[str, ...]
    average: int
    translate: tuple[str, ...]
    published: dict[str, str]


def read_rows(path: Path) -> list[Row]:
    """Read a file of rows; each has the flags of `all` before its own."""
    if not path.is_file():
        known = " ".join(sorted(file.stem for file in FILES.glob("*.tsv")))
        raise UserError(f"{path.stem}: no such experiment; there are {known}")
    lines = [line for line in read_lines(path) if not line.startswith("#")]
    rows, common = [], None
    for record in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE, restval=""):
        of_row = shlex.split(record.pop("train")), shlex.split(record.pop("translate"))
        name, average = record.pop("name"), record.pop("average")
        if None in record or name in {row.name for row in rows}:
            raise UserError(f"{path}: {name}: a column too many, or this name twice")
        if name == COMMON:
            common = (*of_row, average)
            continue
        if common is None:
            raise UserError(f"{path}: the first row must be `{COMMON}`, with the flags of all")
        train, translate = ((*of_all, *new) for of_all, new in zip(common, of_row, strict=False))
        rows.append(Row(name, tuple(train), int(average or common[2]), tuple(translate), record))
    return rows


def choose(rows: list[Row], names: list[str]) -> list[Row]:
    """The rows of these names or groups, in the file's order; without names, all."""
    chosen = {n: [r for r in rows if r.name == n or r.name.startswith(f"{n}_")] for n in names}
    for name, matching in chosen.items():
        if not matching:
            raise UserError(f"{name}: no row; the rows are {' '.join(row.name for row in rows)}")
    return [row for row in rows if not names or any(row in each for each in chosen.values())]


class Runner:
    """Runs trainings and translations, several at a time, each in a folder of its own."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.devices: SimpleQueue[dict[str, str]] = SimpleQueue()
        each = args.gpus // args.parallel
        usable = len(getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0))
        for number in range(args.parallel):
            gpus = ",".join(str(number * each + gpu) for gpu in range(each))
            cores = os.environ.get("OMP_NUM_THREADS") or str(max(1, usable // args.parallel))
            self.devices.put({"CUDA_VISIBLE_DEVICES": gpus} if each else {"OMP_NUM_THREADS": cores})
        self.device_flags = [] if each else ["--cpu"]
        self.workers = ["--distributed-world-size", str(max(1, each))]  # of a training
        self.running: set[subprocess.Popen] = set()
        self.is_stopped = False

    def pass_on(self, number: int, frame: object) -> None:
        """A signal's handler: what runs may save before it ends, and nothing more is begun."""
        if not self.is_stopped:
            say("stops as soon as what runs has saved; the same command goes on")
        self.is_stopped = True
        for child in list(self.running):
            child.send_signal(number)

    def execute(self, command: list[str], log: Path) -> None:
        """Run a command; what it prints is added to `log`."""
        device, code = self.devices.get(), 0
        try:
            if not self.is_stopped:
                with open(log, "a", encoding="utf-8") as stream:
                    output = {"stdout": stream, "stderr": subprocess.STDOUT}
                    child = subprocess.Popen(command, env=os.environ | device, **output)
                self.running.add(child)
                code = child.wait()
                self.running.discard(child)
        finally:
            self.devices.put(device)
        if code == SAVED or (self.is_stopped and code <= 0):
            raise SystemExit(SAVED)
        if code:
            raise UserError(f"{command[0]} failed: see the end of {log}")

    def train(self, name: str, flags: tuple[str, ...]) -> dict[str, Any]:
        """Train, if it isn't finished; the figures of the training."""
        folder = self.args.work / "trainings" / name
        folder.mkdir(parents=True, exist_ok=True)
        log, result = folder / "train.log", folder / "training.json"
        for key, text in {"flags": shlex.join(flags), "data": self.args.digest}.items():
            if not (folder / key).exists():
                (folder / key).write_text(text, encoding="utf-8")
            if (folder / key).read_text(encoding="utf-8") != text:
                raise UserError(f"{folder} is of other {key}: give another --work, or delete it")
        if not result.exists():
            if not self.is_stopped:
                say(f"{name}: trains, {log}")
            plugin = str(ROOT / "vaswani_plugin")
            command = ["fairseq-train", str(self.args.data), "--user-dir", plugin]
            command += ["--save-dir", str(folder / "checkpoints"), "--no-progress-bar"]
            command += ["--log-format", "json", *self.workers, *self.device_flags, *flags]
            self.execute(command, log)
            training = read_training(read_lines(log, True), str(log))
            if not training.valid:
                raise UserError(f"{log}: no validation: is --disable-validation among the flags?")
            figures = {"PPL": training.valid[-1]["ppl"], "minutes": training.seconds / 60}
            for key in ("parameters", "updates", "tokens_per_second"):
                figures[key] = getattr(training, key)
            write_json(result, figures)
            say(f"{name}: validation PPL {figures['PPL']:.2f}")
        return json.loads(result.read_text(encoding="utf-8"))

    def translate(self, name: str, row: Row) -> float:
        """BLEU of the validation set, by a finished training's last states and the row's search."""
        folder = self.args.work / "trainings" / name
        checkpoint = folder / "checkpoints" / "checkpoint_last.pt"
        if row.average > 1:
            inputs, checkpoint = checkpoint.parent, folder / f"average-{row.average}.pt"
            if not checkpoint.exists():
                command = ["vaswani", "average", "--inputs", str(inputs)]
                command += ["--last-updates", str(row.average), "--output", str(checkpoint)]
                self.execute(command, folder / "average.log")
        output = folder / f"{'_'.join((str(row.average), *row.translate)).replace('/', ' ')}.txt"
        if not output.exists():
            part = output.with_suffix(".part")
            part.unlink(missing_ok=True)
            command = ["fairseq-generate", str(self.args.data), "--path", str(checkpoint)]
            command += ["--user-dir", str(ROOT / "vaswani_plugin"), "--task", "vaswani_translation"]
            command += ["--gen-subset", "valid", "--max-tokens", "8192", "--remove-bpe"]
            from vaswani_plugin.inference.checkpoints import load_checkpoint  # imports torch

            pair = trained_languages(load_checkpoint(checkpoint)["cfg"]["task"], self.args.data)
            command += ["-s", pair[0], "-t", pair[1], *self.device_flags, *row.translate]
            self.execute(command, part)
            part.rename(output)
        generated = read_segments(None, output, None, tokenized=True)
        for warning in generated.warnings:
            say(warning)
        return tokenized_score(generated.hypotheses, generated.references)

    def costs(self, names: list[str]) -> list[list[dict[str, float]]]:
        """By training FLOPs, minutes and BLEU at each validation; none without --eval-bleu."""
        folders = [self.args.work / "trainings" / name for name in names]
        runs = [read_training(read_lines(f / "train.log", True), f.name) for f in folders]
        if not all("bleu" in point for run in runs for point in run.valid):
            return []
        flops = flops_of_token(folders[0] / "checkpoints" / "checkpoint_last.pt", self.args.data)
        curves: list[list[dict[str, float]]] = [[] for _ in runs]
        for training, curve in zip(runs, curves, strict=True):
            for point in training.valid:
                tokens = point["num_updates"] * training.tokens_per_update
                minutes = tokens / training.tokens_per_second / 60
                curve.append({"FLOPs": tokens * flops, "minutes": minutes, "BLEU": point["bleu"]})
        return curves


def flops_of_token(checkpoint: Path, data: Path) -> float:
    """Training FLOPs a target token of a pair of sentences of mean lengths."""
    start_fairseq()  # first, since fairseq's models set the root logger to DEBUG
    import torch
    from fairseq.checkpoint_utils import load_model_ensemble_and_task

    from vaswani_plugin.figures.flops import TRAINING_PASSES, counted_flops

    with warnings.catch_warnings(action="ignore"):  # of what fconv is built of, and oneDNN's switch
        (model,), _, task = load_model_ensemble_and_task([str(checkpoint)], {"data": str(data)})
        sides = task.cfg.source_lang, task.cfg.target_lang
        files = [path for side in sides for path in data.glob(f"train.*.{side}.idx")]
        sizes = [read_numbers(path.with_suffix(""))[1] for path in files]
        source, target = (torch.full((1, round(lengths.mean())), 5) for lengths in sizes)
        flops = counted_flops(model.eval(), source, torch.tensor([source.numel()]), target)
    return TRAINING_PASSES * flops / target.numel()


def say(text: str) -> None:
    """Print a line of progress, whole where lines come from several threads."""
    sys.stderr.write(f"experiments: {text}\n")


def measure(rows: list[Row], everything: list[Row], args: argparse.Namespace) -> Results:
    """Train and translate; by row the figures, a value for each seed."""
    runner = Runner(args)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, runner.pass_on)
    names = {row.train: row.name for row in reversed(everything)}  # the first that needs it
    needed = dict.fromkeys(row.train for row in rows)
    trainings = [(flags, seed) for seed in args.seeds for flags in needed]

    def train(flags: tuple[str, ...], seed: int) -> dict[str, Any]:
        return runner.train(f"{names[flags]}-{seed}", (*flags, *args.more, "--seed", str(seed)))

    def search(row: Row, seed: int) -> tuple[object, ...]:  # several rows may have one
        return row.train, row.average, row.translate, seed

    with ThreadPoolExecutor(args.parallel) as pool:
        trained = dict(zip(trainings, pool.map(train, *zip(*trainings, strict=True)), strict=True))
        scored = {search(row, seed): (row, seed) for row in rows for seed in args.seeds}
        runs = [(f"{names[row.train]}-{seed}", row) for row, seed in scored.values()]
        bleu = dict(zip(scored, pool.map(runner.translate, *zip(*runs, strict=True)), strict=True))
    results = {}
    for row in rows:
        runs = [trained[row.train, seed] for seed in args.seeds]
        here = results[row.name] = {key: [each[key] for each in runs] for key in runs[0]}
        here["BLEU"] = [bleu[search(row, seed)] for seed in args.seeds]
        if costs := runner.costs([f"{names[row.train]}-{seed}" for seed in args.seeds]):
            here["costs"] = costs
    return results


def with_error(values: list[float], digits: int = 2) -> str:
    """The mean, and the standard error of it."""
    text = f"{fmean(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ± {stdev(values) / len(values) ** 0.5:.{digits}f}"


def report(rows: list[Row], results: Results) -> str:
    """The table, in Markdown."""
    published = [key for key in rows[0].published if any(row.published[key] for row in rows)]
    head = ["row", *FIGURES, "change of BLEU", "parameters", "updates", "minutes", *published]
    lines = [head, ["---"] * len(head)]
    first = results[rows[0].name]["BLEU"]
    for row in rows:
        here = results[row.name]
        change = [a - b for a, b in zip(here["BLEU"], first, strict=True)]
        cells = [row.name, *(with_error(here[key]) for key in FIGURES)]
        cells += ["" if row is rows[0] else with_error(change)]
        cells += [f"{here[key][0]:,}" for key in ("parameters", "updates")]
        cells += [f"{fmean(here['minutes']):.1f}", *(row.published[key] for key in published)]
        lines.append(cells)
    return as_markdown(lines)


def as_markdown(lines: list[list[str]]) -> str:
    """A table: the head, the line below it, the rows."""
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def reached(points: list[dict[str, float]], level: float, cost: str) -> float | None:
    """FLOPs or minutes at which a training reached a BLEU, between its points in proportion."""
    for before, point in pairwise([{"BLEU": 0.0, cost: 0.0}, *points]):
        if point["BLEU"] >= level:
            share = (level - before["BLEU"]) / (point["BLEU"] - before["BLEU"])
            return before[cost] + share * (point[cost] - before[cost])
    return None


def report_costs(curves: dict[str, list[list[dict[str, float]]]]) -> str:
    """What the trainings and a BLEU cost, in Markdown: means, where all seeds reach it."""
    levels = [n for n in LEVELS if any(reached(x, n, "FLOPs") for x in chain(*curves.values()))]
    head = ["row", "FLOPs", "minutes", *(f"FLOPs, minutes to {n} BLEU" for n in levels)]
    lines = [head, ["---"] * len(head)]
    for name, runs in curves.items():
        flops, minutes = (fmean(points[-1][cost] for points in runs) for cost in COSTS)
        cells = [name, f"{flops:.1e}", f"{minutes:.1f}"]
        for level in levels:
            each = [[reached(points, level, cost) for points in runs] for cost in COSTS]
            cells.append("" if None in each[0] else "{:.1e}, {:.1f}".format(*map(fmean, each)))
        lines.append([cell.replace("e+", "e") for cell in cells])
    return as_markdown(lines)


def draw(rows: list[Row], results: Results, path: Path) -> None:
    """BLEU of each row, with its standard error, as a picture."""
    figure = new_figure(6, 0.6 + 0.28 * len(rows))
    axes = figure.add_subplot(xlabel="BLEU, validation set")
    for place, row in enumerate(reversed(rows)):
        values = results[row.name]["BLEU"]
        error = stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0
        axes.errorbar(fmean(values), place, xerr=error, fmt="o", color="tab:blue", capsize=3)
    axes.set_yticks(range(len(rows)), [row.name for row in reversed(rows)])
    axes.grid(axis="x", alpha=0.3)
    save_figure(figure, path)


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    end = [*argv, "--"].index("--")
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=kind)
    add = parser.add_argument
    add("experiment", help="a file of recipes/experiments, or its path")
    add("rows", nargs="*", help="rows or groups of it (default: all)")
    add("--data", type=Path, required=True, help="binarized data")
    add("--work", type=Path, help="(default: work/EXPERIMENT)")
    add("--seeds", default="1", help="such as 1,2,3 (default: 1)")
    add("--parallel", type=int, default=1, metavar="N", help="trainings at a time")
    add("--gpus", type=int, default=0, metavar="N", help="(default: the CPU)")
    add("--cpu", action="store_const", const=0, dest="gpus")
    args = parser.parse_args(argv[:end])
    if not re.fullmatch("[0-9]+(,[0-9]+)*", args.seeds):
        raise UserError(f"--seeds {args.seeds}: must be numbers, such as 1,2,3")
    args.seeds = list(dict.fromkeys(map(int, args.seeds.split(","))))
    if args.parallel < 1 or args.gpus < 0 or args.gpus % args.parallel:
        raise UserError(f"--parallel {args.parallel}: must be at least 1, and divide --gpus evenly")
    files = sorted([*args.data.glob("dict.*"), *args.data.glob("*.idx")])
    if not files:
        raise UserError(f"--data {args.data}: no binarized data in it")
    if ":" in f"{args.data}{args.work}":
        raise UserError("--data, --work: fairseq takes a colon for the end of a path: give another")
    content = b"".join(file.name.encode() + file.read_bytes() for file in files)
    args.digest = hashlib.sha256(content).hexdigest()  # other text has other words and lengths
    args.work = args.work or ROOT / "work" / Path(args.experiment).stem
    args.more = argv[end + 1 :]
    return args


def main() -> None:
    """Command line."""
    args = parse_arguments(sys.argv[1:])
    path = Path(args.experiment)
    rows = read_rows(path if path.suffix == ".tsv" else FILES / f"{path}.tsv")
    everything, rows = rows, choose(rows, args.rows)
    results = measure(rows, everything, args)
    text = report(rows, results)
    curves = {name: here["costs"] for name, here in results.items() if "costs" in here}
    if curves:
        text += f"\n{report_costs(curves)}"
    with write_atomically(args.work / "report.md") as write:
        write(text.rstrip("\n"))
    content = {"rows": results, "seeds": args.seeds, "processor": processor.description()}
    write_json(args.work / "report.json", content)
    if find_spec("matplotlib"):
        draw(rows, results, args.work / "report.png")
        if curves:
            draw_costs(curves, args.work / "costs.png")
    print(text, end="")


if __name__ == "__main__":
    run(main)
