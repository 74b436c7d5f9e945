"""Prints what a command of `vaswani` or parsing_scores.py found (JSON) as a table for people.

report_table.py lm work/lm/output/perplexity.json
"""

import json
import sys
from importlib import import_module
from pathlib import Path

CLI = "vaswani_plugin.cli"
MODULES = {"lm": f"{CLI}._lm_report", "rouge": f"{CLI}.rouge", "f1": "parsing_scores"}

if __name__ == "__main__":
    command = import_module(MODULES[sys.argv[1]])
    print(command.as_text(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))))
