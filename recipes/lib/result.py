"""Writes the JSON file that ends a recipe.

    result.py --work W --recipe R --arch A --train-log F --data F... \\
        --path data_bin=data-bin --tokenized bleu.json --sacrebleu bleu.json --output W/result.json
"""

import argparse
import hashlib
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from vaswani_plugin import processor  # noqa: E402
from vaswani_plugin.errors import UserError, run  # noqa: E402
from vaswani_plugin.text.lines import read_json, read_lines  # noqa: E402
from vaswani_plugin.text.outputs import write_json  # noqa: E402
from vaswani_plugin.text.training_log import read_training  # noqa: E402

SCORE_AGAIN = "run the stage that scores again"


def describe_training(path: str) -> dict[str, Any]:
    """Reads parameters, updates, target tokens per second and seconds of all starts from a log.

    Raises:
        UserError: the log holds no model size or no training statistics.
    """
    try:
        training = read_training(read_lines(path), path)
    except ValueError as error:
        raise UserError(str(error)) from error
    return {
        "parameters": training.parameters,
        "updates": training.updates,
        "tokens_per_second": round(training.tokens_per_second),
        "wall_seconds": round(training.seconds),
    }


def describe_file(path: Path, work: Path) -> dict[str, Any]:
    """Returns name, bytes and sha256 of a file as it is stored."""
    name = path.relative_to(work) if path.is_relative_to(work) else path.name
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"file": str(name), "bytes": path.stat().st_size, "sha256": digest}


def describe_text(path: Path, work: Path) -> dict[str, Any]:
    """Same as `describe_file` for a data file, with its number of lines."""
    lines = sum(1 for _ in read_lines(path))
    description = describe_file(path, work)
    return {"file": description.pop("file"), "lines": lines, **description}


def describe_binarized(folder: Path, work: Path) -> list[dict[str, Any]]:
    """Describes the files that fairseq-train reads: dictionaries, .bin and .idx files."""
    found = (path for path in sorted(folder.iterdir()) if path.is_file())
    wanted = (p for p in found if p.suffix in (".bin", ".idx") or p.name.startswith("dict."))
    return [describe_file(path, work) for path in wanted]


def provenance() -> dict[str, Any]:
    """Returns what every result tells of its origin: versions of the software, and processor."""
    return {"versions": versions(), "processor": processor.description()}


def versions() -> dict[str, str | None]:
    """Returns the versions of the software on which a result depends."""
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
    parts = (
        (tokenized, ("tokenized", "compound_split")),
        (sacrebleu, ("sacrebleu", "signature")),
    )
    for path, names in parts:
        if path is None:
            continue
        report = read_json(path, SCORE_AGAIN)
        try:
            scores |= {name: report[name] for name in names}
        except (KeyError, TypeError) as error:
            raise UserError(f"{path}: no {error} of `vaswani bleu`: {SCORE_AGAIN}") from error
    return scores


def split_pair(text: str) -> tuple[str, str]:
    """Splits KEY=VALUE.

    Raises:
        UserError: there is no `=`.
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UserError(f"{text}: must be KEY=VALUE")
    return key, value


def write_result(args: argparse.Namespace) -> None:
    """Writes the file `result.json`."""
    work = args.work.resolve()
    content: dict[str, Any] = {"recipe": args.recipe, "arch": args.arch}
    content |= describe_training(args.train_log)
    content["data"] = [describe_text(path.resolve(), work) for path in args.data]
    content["paths"] = dict(split_pair(text) for text in args.path)
    for key, path in content["paths"].items():
        if not (work / path).exists():
            raise UserError(f"--path {key}={path}: {work / path} does not exist")
    if "data_bin" in content["paths"]:
        content["binarized"] = describe_binarized(work / content["paths"]["data_bin"], work)
    if args.scores:
        key, path = split_pair(args.scores)
        content[key] = read_json(path, SCORE_AGAIN)
    else:
        content["bleu"] = read_scores(args.tokenized, args.sacrebleu)
    for key, path in map(split_pair, args.also):
        content[key] = read_json(path, "run the recipe again")
    content |= provenance()
    write_json(args.output, content)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--recipe", required=True)
    parser.add_argument("--arch", required=True)
    parser.add_argument("--train-log", required=True)
    parser.add_argument("--data", type=Path, nargs="+", required=True)
    parser.add_argument("--path", action="append", default=[], metavar="KEY=PATH")
    parser.add_argument(
        "--tokenized", type=Path, help="JSON of `vaswani bleu --tokenized` on tokenized text"
    )
    parser.add_argument("--sacrebleu", type=Path, help="JSON of `vaswani bleu` on detokenized text")
    parser.add_argument(
        "--scores", metavar="KEY=JSON", help="JSON of another command, instead of BLEU"
    )
    parser.add_argument(
        "--also", action="append", default=[], metavar="KEY=JSON", help="JSON file to add under KEY"
    )
    parser.add_argument("--output", required=True)
    write_result(parser.parse_args())


if __name__ == "__main__":
    run(main)
