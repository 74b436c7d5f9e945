"""Prints the JSON report of a command of `vaswani` or of parsing_scores.py as a table for people.

report_table.py lm work/lm/output/perplexity.json
"""

import sys
from importlib import import_module

from vaswani_plugin.errors import UserError, run
from vaswani_plugin.text.lines import read_json

REPORT = "vaswani_plugin.metrics.perplexity"
AGAIN = "remove it and run the recipe again"
MODULES = {"lm": REPORT, "rouge": "vaswani_plugin.cli.rouge", "f1": "parsing_scores"}


def main() -> None:
    """Command line."""
    name, path = sys.argv[1:]
    found = read_json(path, AGAIN)
    try:
        text = import_module(MODULES[name]).as_text(found)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: no report of this kind ({error!r}): {AGAIN}") from error
    print(text)


if __name__ == "__main__":
    run(main)
