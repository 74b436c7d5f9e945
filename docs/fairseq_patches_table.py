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

Each row is a defect of fairseq, as seen by its users, and the function that patches it while the plugin is loaded; fairseq's files stay as they are. A patch does nothing where its defect is gone. Services of training (resuming, preemption, skipped updates) are no patches: `vaswani_plugin/fairseq_plugin/training/trainer.py` is a subclass of fairseq's `Trainer`.

| symptom | upstream | versions | patch |
|---|---|---|---|
"""  # noqa: E501


def row(patch: Callable[[], None]) -> str:
    """Formats the table row of a patch."""
    symptom, *_, upstream, versions = inspect.getdoc(patch).split("\n")
    upstream = upstream.removeprefix("Upstream: ").removesuffix(".")
    if upstream.startswith("#"):
        upstream = f"[{upstream}]({ISSUES}{upstream[1:]})"
    versions = versions.removeprefix("Versions: ").removesuffix(".")
    module = patch.__module__.rpartition(".")[2]
    cells = (symptom.replace("``", "`"), upstream, versions, f"`{module}.{patch.__name__}`")
    return f"| {' | '.join(cells)} |\n"


def table() -> str:
    """Formats the whole page."""
    return HEAD + "".join(map(row, PATCHES))


if __name__ == "__main__":
    sys.stdout.write(table())
