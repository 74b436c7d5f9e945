"""Write a configuration for `fairseq-hydra-train` for every architecture.

    python recipes/config/make_configs.py [--check]

Run it after changing a row; a test runs it with --check.
"""

import argparse
import sys
from dataclasses import fields
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from fairseq.models import MODEL_DATACLASS_REGISTRY  # noqa: E402
from fairseq.tasks import TASK_DATACLASS_REGISTRY  # noqa: E402

from vaswani_plugin.architectures import FAMILIES, Architecture, Family  # noqa: E402
from vaswani_plugin.criterions.label_smoothing import LabelSmoothingConfig  # noqa: E402
from vaswani_plugin.defaults import values_of  # noqa: E402
from vaswani_plugin.models._configuration import values_of_the_task  # noqa: E402
from vaswani_plugin.optim.adam import VaswaniAdamConfig  # noqa: E402
from vaswani_plugin.optim.lr_scheduler import VaswaniScheduleConfig  # noqa: E402

HEADER = """\
# Made by recipes/config/make_configs.py from vaswani_plugin/architectures.py: change the row there.
#   fairseq-hydra-train --config-dir recipes/config --config-name {name} \\
#     task.data=DATA checkpoint.save_dir=CHECKPOINTS
"""
UPDATES = {"vaswani_big": 300_000, "vaswani_big_en_fr": 300_000}


def plain_defaults(config_class: type) -> dict:
    """Defaults of a fairseq dataclass, without those that other groups fill in."""
    defaults = {f.name: f.default for f in fields(config_class) if f.name != "_name"}
    return {k: v for k, v in defaults.items() if not str(v).startswith("${")}


def configuration(family: Family, row: Architecture) -> dict:
    """The whole configuration of a row; hydra fills in nothing of a plugin by itself."""
    config = MODEL_DATACLASS_REGISTRY[family.model]
    model = {**plain_defaults(config), **row.changes}
    of_task = values_of_the_task(config, TASK_DATACLASS_REGISTRY[family.task])
    own = values_of(family.task, family.model)
    smoothing = {"label_smoothing": own["criterion.label_smoothing"]}
    criterion = {**smoothing, **plain_defaults(LabelSmoothingConfig)}
    optimization = {"max_update": UPDATES.get(row.name, 100_000)}
    if own["optimization.clip_norm"]:
        optimization["clip_norm"] = own["optimization.clip_norm"]
    return {
        "common": {"user_dir": "vaswani_plugin", "log_format": "simple"},
        "task": {"_name": family.task, "data": "???", **of_task},
        "model": {
            "_name": family.model,
            **model,
            **{key: f"${{task.{key}}}" for key in of_task},
        },
        "criterion": {"_name": "vaswani_label_smoothing", **criterion},
        "optimizer": {"_name": "vaswani_adam", **plain_defaults(VaswaniAdamConfig)},
        "lr_scheduler": {
            "_name": "vaswani",
            **plain_defaults(VaswaniScheduleConfig),
            "d_model": model["d_model"],
        },
        "dataset": {"max_tokens": 4096},
        "optimization": optimization,
        "hydra": {
            "run": {"dir": "${checkpoint.save_dir}"},
            "output_subdir": None,
            "job": {"chdir": False},
        },
    }


def main() -> int:
    """Write the files, or with --check say which differ from what would be written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if stale")
    check = parser.parse_args().check
    stale = []
    for family, row in ((each, row) for each in FAMILIES for row in each.rows):
        path = Path(__file__).with_name(f"{row.name}.yaml")
        values = yaml.safe_dump(configuration(family, row), sort_keys=False)
        text = HEADER.format(name=row.name) + values
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if not check:
                path.write_text(text, encoding="utf-8")
    if check and stale:
        print(f"stale: {', '.join(stale)}; run recipes/config/make_configs.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
