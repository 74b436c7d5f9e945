"""However the plugin gets into a process, fairseq is in the same state afterwards."""

import json
import os
from pathlib import Path

import pytest

from tests.conftest import PLUGIN, REPO
from tests.support.commands import run_python

# What the plugin changed in fairseq: its names in the registries, the defaults, and for each
# function that it wrapped, of fairseq and of torch's unpickler, how many times.
STATE = f"""
import inspect, json, sys

def state():
    from fairseq import models, registry, tasks, criterions
    tables = {{"model": models.MODEL_REGISTRY, "arch": models.ARCH_MODEL_REGISTRY}}
    tables |= {{"task": tasks.TASK_REGISTRY}}
    tables |= {{name: found["registry"] for name, found in registry.REGISTRIES.items()}}
    names = {{kind: sorted(n for n in t if n.startswith("vaswani")) for kind, t in tables.items()}}
    defaults = {{name: found["default"] for name, found in registry.REGISTRIES.items()}}
    return {{"names": names, "defaults": defaults, "patched": patched()}}

def patched():
    found = {{}}
    for name, module in list(sys.modules.items()):
        if not name.startswith(("fairseq", "torch._weights_only")) or module is None:
            continue
        for owner in [module, *(c for c in vars(module).values() if inspect.isclass(c))]:
            place = f"{{owner.__module__}}:{{owner.__name__}}" if owner is not module else name
            for key, value in list(vars(owner).items()):
                if isinstance(value, (classmethod, staticmethod)):
                    value = value.__func__
                if inspect.isfunction(value) and layers(value):
                    found[f"{{place}}.{{key}}"] = layers(value)
    return found

def layers(function):
    count = 0
    while function is not None:
        code = getattr(function, "__code__", None)  # what is written in C has none
        count += code is not None and code.co_filename.startswith({str(PLUGIN) + os.sep!r})
        function = getattr(function, "__wrapped__", None)
    return count

def load_user_dir():
    from argparse import Namespace
    from fairseq.utils import import_user_module
    import_user_module(Namespace(user_dir={str(PLUGIN)!r}))
"""
SHOW = "\nprint(json.dumps(state()))\n"
OURS = "vaswani_plugin.fairseq_plugin"
CALLBACK = f"OmegaConf.load({str(REPO / 'recipes/config/training.yaml')!r}).hydra.callbacks.plugin"
WAYS = {
    "the callback of our Hydra configurations, before a job": (
        "import fairseq_cli.hydra_train\nfrom hydra.utils import instantiate\n"
        f"from omegaconf import OmegaConf\ninstantiate({CALLBACK})"
    ),
    "the package, after fairseq": "import fairseq, vaswani_plugin",
    "Hydra's configurations": (
        "from fairseq.utils import import_user_module as load; from omegaconf import OmegaConf\n"
        f"load(OmegaConf.load({str(REPO / 'recipes/config/training.yaml')!r}).common)"
    ),
    "a task's module, as a spawned worker unpickles it": (
        f"import {OURS}.tasks.translation; load_user_dir()"
    ),
    "a public name, then register and the loader, twice": (
        "import vaswani_plugin as v; v.VaswaniTransformer\n"
        + "for _ in range(2): v.register(); load_user_dir()"
    ),
}


def run(program: str, folder: Path = REPO) -> dict:
    """The state that a program prints, in a folder."""
    environment = os.environ | {"PYTHONPATH": str(REPO), "OMP_NUM_THREADS": "1"}
    options = {"env": environment | {"VASWANI_ROOT": str(REPO)}, "cwd": folder, "timeout": 300}
    done = run_python("-c", program, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().split("\n")[-1])


@pytest.fixture(scope="module")
def expected() -> dict:
    """The state after fairseq's loader alone, with all that a training imports."""
    program = STATE + "load_user_dir()\nimport fairseq_cli.train, fairseq_cli.hydra_train\n" + SHOW
    return run(program)


def comparable(state: dict) -> dict:
    """Without the copies of functions that the command modules keep, where they are imported."""
    own = {k: n for k, n in state["patched"].items() if not k.startswith("fairseq_cli")}
    return state | {"patched": own}


def test_the_loader_registers_and_patches(expected):
    assert "vaswani_transformer" in expected["names"]["model"]
    assert {"vaswani_base", "vaswani_debug", "vaswani_lm_debug"} <= set(expected["names"]["arch"])
    assert "vaswani_translation" in expected["names"]["task"]
    assert expected["defaults"]["criterion"] == "vaswani_label_smoothing"
    assert expected["names"]["lr_scheduler"] == ["vaswani", "vaswani_halving"]
    assert any("Trainer.train_step" in name for name in expected["patched"])


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_same_state(way, expected, tmp_path):
    """In any folder."""
    assert comparable(run(f"{STATE}\n{WAYS[way]}\n{SHOW}", tmp_path)) == comparable(expected)


def test_each_public_name_is_there():
    import vaswani_plugin

    for name in vaswani_plugin.__all__:
        assert getattr(vaswani_plugin, name) is not None
        assert name in dir(vaswani_plugin)
