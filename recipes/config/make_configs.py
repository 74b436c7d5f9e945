"""Write the configurations for `fairseq-hydra-train`: one for each task, and a model for each row.

    python recipes/config/make_configs.py

Run it after changing a row; tests/model/test_architectures.py compares the files with what the
flags of `fairseq-train` give.
"""

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from fairseq.models import MODEL_DATACLASS_REGISTRY  # noqa: E402
from fairseq.tasks import TASK_DATACLASS_REGISTRY  # noqa: E402

from vaswani_plugin.fairseq_plugin.adam import VaswaniAdamConfig  # noqa: E402
from vaswani_plugin.fairseq_plugin.criterion import LabelSmoothingConfig  # noqa: E402
from vaswani_plugin.fairseq_plugin.defaults import values_of  # noqa: E402
from vaswani_plugin.fairseq_plugin.models._parameters import values_of_the_task  # noqa: E402
from vaswani_plugin.fairseq_plugin.schedule import VaswaniScheduleConfig  # noqa: E402
from vaswani_plugin.model.architectures import FAMILIES, Architecture, Family  # noqa: E402

MADE = "# Made by recipes/config/make_configs.py from vaswani_plugin/model/architectures.py\n"
USE = """\
#   fairseq-hydra-train --config-dir recipes/config --config-name {name} model={model} \\
#     task.data=DATA checkpoint.save_dir=CHECKPOINTS
"""


def plain_defaults(config_class: type) -> dict[str, Any]:
    """Defaults of a fairseq dataclass, without those that other groups fill in."""
    defaults = {f.name: f.default for f in fields(config_class) if f.name != "_name"}
    return {k: v for k, v in defaults.items() if not str(v).startswith("${")}


def of_task(family: Family) -> dict[str, Any]:
    """The options that a family's models take from its task."""
    model, task = MODEL_DATACLASS_REGISTRY[family.model], TASK_DATACLASS_REGISTRY[family.task]
    return values_of_the_task(model, task)


def model(family: Family, row: Architecture) -> dict[str, Any]:
    """All options of a row's model: Hydra fills in nothing of a plugin by itself."""
    defaults = plain_defaults(MODEL_DATACLASS_REGISTRY[family.model])
    shared = {key: f"${{task.{key}}}" for key in of_task(family)}
    return {"_name": family.model, **defaults, **row.changes, **shared}


def difference(row: dict[str, Any], base: dict[str, Any], name: str) -> dict[str, Any]:
    """What a row changes in the base model called `name`, as a configuration."""
    changes = {key: value for key, value in row.items() if value != base[key]}
    return {"defaults": [name, "_self_"], **changes}


def training(family: Family) -> tuple[str, dict[str, Any]]:
    """The name and the configuration of a training of a family's models."""
    own = values_of(family.task, family.model)
    name = family.task.removeprefix("vaswani_")
    optimization = {"max_update": 100_000}
    if own["optimization.clip_norm"]:
        name += "_lstm"
        optimization["clip_norm"] = own["optimization.clip_norm"]
    smoothing = {"label_smoothing": own["criterion.label_smoothing"]}
    criterion = {**smoothing, **plain_defaults(LabelSmoothingConfig)}
    schedule = {**plain_defaults(VaswaniScheduleConfig), "d_model": "${model.d_model}"}
    return name, {
        "defaults": ["_self_", {"model": family.rows[0].name}],
        "common": {"user_dir": "vaswani_plugin", "log_format": "simple"},
        "task": {"_name": family.task, "data": "???", **of_task(family)},
        "criterion": {"_name": "vaswani_label_smoothing", **criterion},
        "optimizer": {"_name": "vaswani_adam", **plain_defaults(VaswaniAdamConfig)},
        "lr_scheduler": {"_name": "vaswani", **schedule},
        "dataset": {"max_tokens": 4096},
        "optimization": optimization,
        "hydra": {
            "run": {"dir": "${checkpoint.save_dir}"},
            "output_subdir": None,
            "job": {"chdir": False},
        },
    }


def main() -> None:
    """Write the files."""
    folder = Path(__file__).parent
    trainings: dict[str, dict[str, Any]] = {}
    texts: dict[str, str] = {}
    for family in FAMILIES:
        name, configuration = training(family)
        trainings.setdefault(name, configuration)  # the first family's model is the default
        first, *others = family.rows
        base = model(family, first)
        models = {first.name: base}
        models |= {row.name: difference(model(family, row), base, first.name) for row in others}
        texts |= {f"model/{k}": yaml.safe_dump(v, sort_keys=False) for k, v in models.items()}
    for name, configuration in trainings.items():
        use = USE.format(name=name, model=configuration["defaults"][1]["model"])
        texts[name] = use + yaml.safe_dump(configuration, sort_keys=False)
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(MADE + text, encoding="utf-8")


if __name__ == "__main__":
    main()
