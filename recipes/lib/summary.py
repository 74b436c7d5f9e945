"""Prints the last line of a recipe, for people, from its result.json.

summary.py work/multi30k/result.json --title "multi30k en-de"
"""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from vaswani_plugin.errors import UserError, run  # noqa: E402
from vaswani_plugin.metrics.result_scores import scores_of  # noqa: E402
from vaswani_plugin.text.lines import read_json  # noqa: E402


def duration(seconds: float) -> str:
    """Formats a time span for people."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{round(seconds)} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def summary(result: dict[str, Any], title: str) -> str:
    """Formats one line: the scores, then the cost of the training."""
    cost = [
        result["arch"],
        f"{result['parameters']:,} parameters",
        f"{result['updates']:,} updates",
        duration(result["wall_seconds"]),
    ]
    if result["tokens_per_second"]:
        cost.append(f"{result['tokens_per_second']:,} target tokens/s")
    return f"{title}: {', '.join(scores_of(result))} ({', '.join(cost)})"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("result", type=Path)
    parser.add_argument("--title", required=True)
    args = parser.parse_args()
    result = read_json(args.result, "run the recipe's last stage again")
    try:
        line = summary(result, args.title)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{args.result}: no result.json of a recipe: {error!r}") from error
    print(f"{line}: {args.result}")


if __name__ == "__main__":
    run(main)
