"""Writes the JSON file that ends a recipe.

    result.py result --work W --recipe R --arch A --train-log F --data F... \\
        --path data_bin=data-bin --tokenized bleu.json --sacrebleu bleu.json --output W/result.json
"""

import argparse
import hashlib
import json
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "data-prep"))

from vaswani_text.corpus_io import InputError, read_lines, run, write_atomically  # noqa: E402

_JSON_LINE = re.compile(r"\| (?:train|train_inner) \| (\{.*\})\s*$")
_SIMPLE_PAIR = re.compile(r"(\w+)=([^\s,|]+)")
_EPOCH_PAIR = re.compile(r"\| (\w+) (\S+)")
_LOADED = re.compile(r"Loaded checkpoint .* \(epoch \d+ @ (\d+) updates\)")
_PARAMETERS = re.compile(r"num\. (?:shared )?model params: ([\d,]+)")


def log_fields(line: str) -> tuple[bool, dict[str, str]] | None:
    """The fields of a line of training statistics in fairseq's json or simple format.

    Returns:
        Whether the line speaks of an interval within an epoch, and its fields; None for any other
        line.
    """
    found = _JSON_LINE.search(line)
    if found:
        fields = json.loads(found.group(1))
        fields = {key.removeprefix("train_"): str(value) for key, value in fields.items()}
        return "| train_inner |" in line, fields
    if "| train_inner |" in line:
        return True, dict(_SIMPLE_PAIR.findall(line))
    if "| train | epoch" in line:
        return False, dict(_EPOCH_PAIR.findall(line))
    return None


class Speed:
    """Target tokens and seconds, added up over the intervals between two lines of statistics."""

    def __init__(self) -> None:
        self.tokens = 0.0
        self.seconds = 0.0
        self._last_update = 0

    def begin_at(self, update: int) -> None:
        """A training started, from the beginning (0) or from a checkpoint."""
        self._last_update = update

    def add(self, fields: dict[str, str]) -> None:
        """An interval that ends at `num_updates`; wpb and wps are target tokens."""
        update = int(fields["num_updates"])
        tokens = (update - self._last_update) * float(fields["wpb"])
        speed = float(fields["wps"])
        self._last_update = update
        if tokens > 0 and speed > 0:
            self.tokens += tokens
            self.seconds += tokens / speed

    def tokens_per_second(self) -> int | None:
        """The mean, or None where nothing was added."""
        return round(self.tokens / self.seconds) if self.seconds else None


def read_training_log(path: str) -> dict[str, Any]:
    """What a log of fairseq-train tells, also one to which a resumed training was added.

    Returns:
        `parameters`; `updates`; `wall_seconds`, the time of all starts; `tokens_per_second`,
        target tokens without padding.

    Raises:
        InputError: the log holds no model size or no training statistics.
    """
    parameters, updates, wall, wall_before = None, 0, 0.0, 0.0
    # Whole epochs count validation in, so they only stand in where a run was too short to log
    # intervals.
    intervals, epochs = Speed(), Speed()
    for line in read_lines(path):
        if found := _PARAMETERS.search(line):
            parameters = int(found.group(1).replace(",", ""))
            wall_before, wall = wall_before + wall, 0.0  # fairseq's clock starts anew
        start = 0 if found else None
        if found := _LOADED.search(line):
            start = int(found.group(1))
        if start is not None:
            intervals.begin_at(start)
            epochs.begin_at(start)
        parsed = log_fields(line)
        if parsed:
            inner, fields = parsed
            updates = int(fields.get("num_updates", updates))
            wall = float(fields.get("wall", wall))
            if {"num_updates", "wpb", "wps"} <= fields.keys():
                (intervals if inner else epochs).add(fields)
    if parameters is None:
        raise InputError(f"{path}: no model size in it: is this a log of fairseq-train?")
    if updates == 0:
        raise InputError(f"{path}: no training statistics in it: did the training begin?")
    return {
        "parameters": parameters,
        "updates": updates,
        "tokens_per_second": intervals.tokens_per_second() or epochs.tokens_per_second(),
        "wall_seconds": round(wall_before + wall),
    }


def describe_file(path: Path, work: Path) -> dict[str, Any]:
    """Name, lines and sha256 of a data file as it is stored; lines are those of its content."""
    name = path.relative_to(work) if path.is_relative_to(work) else path.name
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"file": str(name), "lines": sum(1 for _ in read_lines(path)), "sha256": digest}


def versions() -> dict[str, str | None]:
    """Versions of what decides on a result."""
    names = {"torch": "torch", "fairseq": "fairseq-fixed", "plugin": "vaswani-plugin"}
    found: dict[str, str | None] = {}
    for key, package in names.items():
        try:
            found[key] = version(package)
        except PackageNotFoundError:
            found[key] = None
    return found


def read_scores(tokenized: Path | None, sacrebleu: Path | None) -> dict[str, Any]:
    """Joins the outputs of `vaswani bleu --format json` on tokens and on running text."""
    scores: dict[str, Any] = {"tokenized": None, "compound_split": None}
    scores |= {"sacrebleu": None, "signature": None}
    if tokenized:
        report = json.loads(tokenized.read_text(encoding="utf-8"))
        scores["tokenized"] = report["tokenized"]
        scores["compound_split"] = report["compound_split"]
    if sacrebleu:
        report = json.loads(sacrebleu.read_text(encoding="utf-8"))
        scores["sacrebleu"] = report["sacrebleu"]
        scores["signature"] = report["signature"]
    return scores


def write_json(content: dict[str, Any], output: str) -> None:
    """Writes pretty JSON; the file is complete or not there."""
    with write_atomically(output) as write:
        write(json.dumps(content, indent=2, ensure_ascii=False))


def split_pair(text: str) -> tuple[str, str]:
    """Splits KEY=VALUE.

    Raises:
        InputError: no `=`.
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise InputError(f"{text}: must be KEY=VALUE")
    return key, value


def write_result(args: argparse.Namespace) -> None:
    """The file `result.json`."""
    work = args.work.resolve()
    content: dict[str, Any] = {"recipe": args.recipe, "arch": args.arch}
    content |= read_training_log(args.train_log)
    content["data"] = [describe_file(path.resolve(), work) for path in args.data]
    content["paths"] = dict(split_pair(text) for text in args.path)
    for key, path in content["paths"].items():
        if not (work / path).exists():
            raise InputError(f"--path {key}={path}: {work / path} does not exist")
    content["bleu"] = read_scores(args.tokenized, args.sacrebleu)
    content["versions"] = versions()
    write_json(content, args.output)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    result = commands.add_parser("result", help="the result of a recipe")
    result.add_argument("--work", type=Path, required=True)
    result.add_argument("--recipe", required=True)
    result.add_argument("--arch", required=True)
    result.add_argument("--train-log", required=True)
    result.add_argument("--data", type=Path, nargs="+", required=True)
    result.add_argument("--path", action="append", default=[], metavar="KEY=PATH")
    result.add_argument("--tokenized", type=Path, help="`vaswani bleu --tokenized` on tokens")
    result.add_argument("--sacrebleu", type=Path, help="`vaswani bleu` on running text")
    result.add_argument("--output", required=True)
    result.set_defaults(function=write_result)
    args = parser.parse_args()
    args.function(args)


if __name__ == "__main__":
    run(main)
