"""Prints what a command of `vaswani` found (--format json) as the command's table for people.

report_table.py lm work/lm/output/perplexity.json
"""

import json
import sys
from importlib import import_module
from pathlib import Path

MODULES = {"lm": "_lm_report", "rouge": "rouge"}

if __name__ == "__main__":
    command = import_module(f"vaswani_plugin.cli.{MODULES[sys.argv[1]]}")
    print(command.as_text(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))))
