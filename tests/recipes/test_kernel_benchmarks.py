"""kernels.sh compares each kernel's absence with all of them."""

import json
import os
import subprocess
import sys

import preloaded
import pytest

from tests.conftest import REPO, fairseq_environment

FOLDER = REPO / "recipes" / "benchmarks"


@pytest.fixture(scope="module")
def kernels():
    sys.path.insert(0, str(FOLDER))
    import kernels

    yield kernels
    sys.path.remove(str(FOLDER))


def run(script: str, *arguments: object) -> subprocess.CompletedProcess:
    done = subprocess.run(
        ["bash", FOLDER / script, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=fairseq_environment(
            VASWANI_VENV=os.environ.get("VASWANI_VENV", str(REPO / ".venv")),
            PATH=f"{preloaded.commands()}{os.pathsep}{os.environ['PATH']}",
        ),
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def test_each_kernel_is_left_out_once(kernels):
    variants = kernels.variants()
    names = set(variants["without linear"].split(",")) | {"linear"}
    assert variants["all"] == "on" and variants["plain"] == "off"
    for name in names:
        assert set(variants[f"without {name}"].split(",")) == names - {name}
    assert len(variants) == len(names) + 2


def test_one_kernel_alone(kernels):
    assert list(kernels.variants(["linear"])) == ["all", "without linear", "plain"]
    with pytest.raises(kernels.UserError, match="--kernels lin: no such kernel; they are "):
        kernels.variants(["lin"])


def test_ratios_are_those_of_the_same_round(kernels):
    """The machine's speed halves in the second round: no ratio notices."""
    order = []

    def once(name, setting, repetition):
        order.append((name, repetition))
        speed = {"all": 100, "without a": 80, "plain": 40}[name] / repetition
        return {"speed": speed, "peak_mib": 7}

    table = kernels.measure({"all": "on", "without a": "b", "plain": "off"}, 2, once)
    assert order == [(n, r) for r in (1, 2) for n in ("all", "without a", "plain")]
    assert table["without a"]["over_all"] == {"median": 0.8, "lowest": 0.8, "highest": 0.8}
    assert table["plain"]["over_all"]["median"] == 0.4 and table["all"]["speed"] == 75


def test_it_runs(toy_data_bin, tmp_path):
    flags = ("--updates", 1, "--warm-up", 0, "--repetitions", 1, "--all-threads", 1)
    small = ("--max-tokens", 200, "--sentences", 8, "--kernels", "fused_loss")
    done = run("kernels.sh", "--data", toy_data_bin, "--work", tmp_path, *flags, *small)
    result = json.loads((tmp_path / "kernels.json").read_text(encoding="utf-8"))
    assert [case["mode"] for case in result["cases"]] == ["training", "decoding"]
    for case in result["cases"]:
        assert list(case["variants"]) == ["all", "without fused_loss", "plain"]
        assert all(row["speed"] > 0 for row in case["variants"].values())
    assert result["processor"] in done.stdout and result["lines"]["fused_loss.py"] > 50
