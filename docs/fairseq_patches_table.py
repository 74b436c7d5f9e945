"""Prints docs/reference/fairseq-patches.md, made from the docstrings of the patches.

python docs/fairseq_patches_table.py >docs/reference/fairseq-patches.md
"""

import inspect
import sys
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / part) for part in ("", "data-prep")]

from vaswani_plugin.fairseq_plugin.patches import PATCHES  # noqa: E402

ISSUES = "https://github.com/facebookresearch/fairseq/issues/"
HEAD = """# What the plugin changes in fairseq

Made by `docs/fairseq_patches_table.py` from the docstrings in `vaswani_plugin/fairseq_plugin/patches/`: change them there.

Each row is a defect of fairseq, as seen by its users, and the function that patches it while the plugin is loaded; fairseq's files stay as they are. All were seen in fairseq-fixed 0.12.3.1, the version that the lock names; with another version the log says so. Services of training (resuming, preemption, skipped updates) are no patches: `vaswani_plugin/fairseq_plugin/trainer.py` is a subclass of fairseq's `Trainer`.

| symptom | upstream | patch |
|---|---|---|
"""  # noqa: E501


def row(patch: Callable[[], None]) -> str:
    """Formats the table row of a patch."""
    symptom, *more = inspect.getdoc(patch).split("\n")
    number = more[-1].removeprefix("Upstream: #").rstrip(".") if more else ""
    upstream = f"[#{number}]({ISSUES}{number})" if number.isdecimal() else "none known"
    module = patch.__module__.rpartition(".")[2]
    cells = (symptom.replace("``", "`"), upstream, f"`{module}.{patch.__name__}`")
    return f"| {' | '.join(cells)} |\n"


def table() -> str:
    """Formats the whole page."""
    return HEAD + "".join(map(row, PATCHES))


if __name__ == "__main__":
    sys.stdout.write(table())
