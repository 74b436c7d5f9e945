"""Prints the scores on the new and the old test set, before and after fine-tuning.

The inputs are outputs of `vaswani bleu` or `vaswani lm`.

    compare_scores.py new_before=a.json new_after=b.json old_before=c.json old_after=d.json \\
        --output compared.json
    compare_scores.py --show compared.json
"""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from vaswani_plugin.errors import UserError, run  # noqa: E402
from vaswani_plugin.text.lines import read_json  # noqa: E402
from vaswani_plugin.text.outputs import write_json  # noqa: E402

AGAIN = "run the stage compare again"


def read_score(path: str) -> tuple[str, float]:
    """Reads the name of a report's measure, and the model's value.

    Raises:
        UserError: the file is no report.
    """
    report = read_json(path, AGAIN)
    try:
        if "sacrebleu" in report:
            return "sacreBLEU", float(report["sacrebleu"])
        (row,) = (row for row in report["results"] if row["name"] == "model")
        return "bits a character", float(row["bits_per_character"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path}: no report of `vaswani bleu` or `vaswani lm` ({error!r}): {AGAIN}"
        ) from error


def line(title: str, measure: str, before: float, after: float) -> str:
    """Formats two scores and their difference."""
    return f"{title}: {before:.2f} {measure} before, {after:.2f} after ({after - before:+.2f})"


def text(scores: dict[str, Any], path: str) -> str:
    """Formats the comparison for people.

    Raises:
        UserError: a score is missing; names `path`, the file of the scores.
    """
    try:
        measure = scores["measure"]
        lines = [line("new test", measure, scores["new_before"], scores["new_after"])]
        if "old_before" in scores:
            lines.append(line("old test", measure, scores["old_before"], scores["old_after"]))
        else:
            lines.append("old test: not measured; give one with --old-test")
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: no comparison of scores ({error!r}): {AGAIN}") from error
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scores", nargs="*", metavar="NAME=JSON")
    file = parser.add_mutually_exclusive_group(required=True)
    file.add_argument("--output", help="JSON file to write")
    file.add_argument("--show", metavar="JSON", help="print an --output file again")
    args = parser.parse_args()
    if args.show:
        print(text(read_json(args.show, AGAIN), args.show))
        return
    scores: dict[str, Any] = {}
    for name, _, path in (part.partition("=") for part in args.scores):
        scores["measure"], scores[name] = read_score(path)
    found = text(scores, args.output)
    write_json(args.output, scores)
    print(found)


if __name__ == "__main__":
    run(main)
