"""Seconds that each command takes on two lines of text, mostly its start; run by startup.sh.

The baseline is `python -c "import torch"`. The commands run in turn, round after round; a row is
the median over the rounds.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from vaswani_plugin.errors import UserError, run  # noqa: E402
from vaswani_plugin.inference.engine import engine_of  # noqa: E402

MEASURE = "import torch"
TEXTS = {
    "hyp": "a cat sat .\nthe dog runs .\n",
    "ref": "the cat sat .\na dog runs .\n",
    "sentence": "The old doctor saw a bird in the garden.\n",
    "trees": "(S (NP (D the) (N cat)) (VP (V sat)))\n(S (NP (D a) (N dog)) (VP (V runs)))\n",
}
COMMANDS = {
    "--help": 0.15,
    "bleu --hypothesis hyp --reference ref": 0.3,
    "evalb trees trees": 0.3,
    "rouge --hypothesis hyp --references ref": 1.0,
    "archs --help": 0.3,
    "translate --help": 0.3,
    "cost --hours 3 --device H100": 0.3,
    "complexity": 0.3,
}
"""Arguments of `vaswani`: the ratio to `import torch` that they should not exceed."""

TRANSLATE = "translate --cpu --model {model} sentence"
GOALS = {"torch": 1.5, "ctranslate2": 0.4}
"""The ratio that `TRANSLATE` should not exceed, by the engine of the bundle `{model}`."""

Clock = Callable[[list[str], Path], float]


def seconds(command: list[str], folder: Path) -> float:
    """Wall seconds of a command.

    Raises:
        UserError: the command fails.
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    took = time.perf_counter() - began
    if done.returncode != 0:
        raise UserError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr[-300:]}")
    return took


def compare(
    commands: dict[str, float | None], repetitions: int, clock: Clock = seconds
) -> list[dict[str, Any]]:
    """One row a command: its median in seconds, the ratio to `import torch`, and the goal.

    Args:
        commands: goal (or None) by the arguments of `vaswani`, which are separated by blanks.
        repetitions: rounds after one warm-up round.
        clock: measures a command line in a folder.
    """
    lines = {MEASURE: [sys.executable, "-c", MEASURE]}
    for arguments in commands:
        lines[arguments] = [sys.executable, "-m", "vaswani_plugin.cli", *arguments.split()]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in TEXTS.items():
            (folder / file).write_text(text, encoding="utf-8")
        rounds = [
            {k: clock(line, folder) for k, line in lines.items()} for _ in range(1 + repetitions)
        ]
    medians = {name: median(times[name] for times in rounds[1:]) for name in lines}
    return [
        {
            "command": name if name == MEASURE else f"vaswani {name}",
            "seconds": round(medians[name], 3),
            "ratio": round(medians[name] / medians[MEASURE], 3),
            "goal": commands.get(name),
        }
        for name in lines
    ]


def as_table(rows: list[dict[str, Any]]) -> str:
    """The rows as a table."""
    width = max(len(row["command"]) for row in rows)
    lines = [f"{'':{width}}  seconds  ratio  goal"]
    for row in rows:
        goal = "" if row["goal"] is None else f"{row['goal']:6.2f}"
        lines.append(f"{row['command']:{width}}  {row['seconds']:7.2f}  {row['ratio']:5.2f}{goal}")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    """Command line.

    Raises:
        UserError: a command fails, or a flag has a value that can't run.
    """
    parser = argparse.ArgumentParser(
        prog="startup.sh",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--repetitions", type=int, default=5, metavar="N", help="rounds (default: 5)"
    )
    parser.add_argument(
        "--model",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="a bundle, or an export of one; also measures a translation with it; may be repeated",
    )
    parser.add_argument("--format", choices=["text", "json"], default="text")
    args = parser.parse_args(argv)
    if args.repetitions < 1:
        raise UserError(f"--repetitions {args.repetitions}: must be at least 1")
    commands: dict[str, float | None] = dict(COMMANDS)
    for model in args.model:
        if len(str(model).split()) != 1:
            raise UserError(f"--model {model}: must be a path without blanks here")
        commands[TRANSLATE.format(model=model.resolve())] = GOALS.get(engine_of(model))
    rows = compare(commands, args.repetitions)
    print(json.dumps(rows, indent=1) if args.format == "json" else as_table(rows))


if __name__ == "__main__":
    run(main)
