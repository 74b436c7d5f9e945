"""Ends a recipe: writes WORK/result.json, and prints a line for people.

    result.py WORK RECIPE TITLE bleu=WORK/bleu.json

KEY=FILE is a JSON report of `vaswani`; of several reports under one key each fills in what the
earlier ones lack.
"""

import hashlib
import json
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from vaswani_plugin import processor  # noqa: E402
from vaswani_plugin.errors import run  # noqa: E402
from vaswani_plugin.metrics.result_scores import scores_of  # noqa: E402
from vaswani_plugin.text.lines import read_lines  # noqa: E402
from vaswani_plugin.text.outputs import write_json  # noqa: E402
from vaswani_plugin.text.training_log import read_training  # noqa: E402

PACKAGES = {"torch": "torch", "fairseq": "fairseq-fixed", "plugin": "vaswani-plugin"}


def versions() -> dict[str, str | None]:
    """The versions of the software on which a result depends; None: not installed."""
    found: dict[str, str | None] = {}
    for key, package in PACKAGES.items():
        try:
            found[key] = version(package)
        except PackageNotFoundError:
            found[key] = None
    return found


def describe(path: Path, work: Path) -> dict[str, Any]:
    """Name, size and sum of a file."""
    content = path.read_bytes()
    found = {"file": str(path.relative_to(work)), "bytes": len(content)}
    return {**found, "sha256": hashlib.sha256(content).hexdigest()}


def read_reports(arguments: list[str]) -> dict[str, Any]:
    """The reports, by their keys."""
    reports: dict[str, Any] = {}
    for argument in arguments:
        key, _, path = argument.partition("=")
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        known = {name: value for name, value in reports.get(key, {}).items() if value is not None}
        reports[key] = found | known
    return reports


def main() -> None:
    """Command line."""
    work, recipe, title, *arguments = sys.argv[1:]
    folder = Path(work)
    log = sorted((folder / "logs").glob("train*.log"))[-1]
    training = read_training(read_lines(log), log)
    texts = [path for path in sorted((folder / "raw").iterdir()) if path.suffix != ".part"]
    data = [{**describe(p, folder), "lines": p.read_bytes().count(b"\n")} for p in texts]
    binarized = sorted((folder / "data-bin").glob("*.*.*"))
    result = {
        "recipe": recipe,
        "arch": training.arch,
        "parameters": training.parameters,
        "updates": training.updates,
        "tokens_per_second": round(training.tokens_per_second),
        "wall_seconds": round(training.seconds),
        "data": data,
        "binarized": [describe(path, folder) for path in binarized],
        **read_reports(arguments),
        "versions": versions(),
        "processor": processor.description(),
    }
    write_json(folder / "result.json", result)
    minutes = training.seconds / 60
    print(
        f"{title}: {', '.join(scores_of(result))} ({training.arch}, {training.parameters:,} "
        f"parameters, {training.updates:,} updates, {minutes:.1f} min, "
        f"{training.tokens_per_second:,.0f} target tokens/s): {folder / 'result.json'}"
    )


if __name__ == "__main__":
    run(main)
