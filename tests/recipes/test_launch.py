"""Where recipes train: GPUs, CPU workers and nodes; by help, dry runs and keys."""

import os
import shlex
import stat
from pathlib import Path

import pytest

from tests.support.scripts import ROOT, assert_one_line_error, run_bash
from vaswani_plugin.fairseq_plugin.training.checkpoints import write_progress

RECIPES = ["quickstart", "wmt14_en_de", "lm", "summarization", "parsing"]
OF_MANY_TRAININGS = ["table3", "ancestors", "section5", "seq2seq"]
TWO_NODES = ("--nodes", 2, "--master", "first.example:1234")


def dry_run(name: str, *args: object, **environment: str):
    """The recipe with --dry-run; returns the process."""
    script = ROOT / "recipes" / f"{name}.sh"
    return run_bash(script, "--dry-run", "--work", "/no/such/work", *args, **environment)


def commands(done) -> list[list[str]]:
    """The commands of a dry run, split into words."""
    assert done.returncode == 0, done.stderr
    return [shlex.split(line[2:]) for line in done.stderr.split("\n") if line.startswith("+ ")]


def training_of(done) -> list[str]:
    """The words of the only command that trains."""
    (words,) = [words for words in commands(done) if "fairseq-train" in words]
    return words


def value(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


@pytest.mark.parametrize("name", RECIPES)
def test_one_node_needs_no_launcher(name):
    on_cpu = training_of(dry_run(name, "--cpu"))
    assert on_cpu[0] == "fairseq-train" and "--cpu" in on_cpu
    assert "--distributed-world-size" not in on_cpu
    on_gpus = training_of(dry_run(name, "--gpus", 8))
    assert on_gpus[0] == "fairseq-train" and "--cpu" not in on_gpus
    assert value(on_gpus, "--distributed-world-size") == "8"


@pytest.mark.parametrize("name", RECIPES)
def test_workers_on_a_cpu_share_its_cores(name):
    words = training_of(dry_run(name, "--cpu", "--workers", 2, OMP_NUM_THREADS=""))
    cores = len(os.sched_getaffinity(0))
    assert words[:3] == ["env", f"OMP_NUM_THREADS={max(1, cores // 2)}", "fairseq-train"]
    assert "--cpu" in words and value(words, "--distributed-world-size") == "2"
    chosen = training_of(dry_run(name, "--cpu", "--workers", 2, OMP_NUM_THREADS="5"))
    assert chosen[0] == "fairseq-train"


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize(("device", "each"), [(("--gpus", 4), "4"), (("--cpu",), "1")])
def test_nodes_meet_by_torchrun(name, device, each):
    first, second = (
        dry_run(name, *device, *TWO_NODES, "--node-rank", rank, "--update-freq", 1)
        for rank in (0, 1)
    )
    for rank, done in enumerate((first, second)):
        words = training_of(done)
        assert words[0] == "torchrun"
        assert (value(words, "--nnodes"), value(words, "--nproc-per-node")) == ("2", each)
        assert value(words, "--node-rank") == str(rank)
        assert value(words, "--master-addr") == "first.example"
        assert value(words, "--master-port") == "1234"
        assert "--distributed-world-size" not in words  # torchrun tells it
    training = training_of(first)
    assert training_of(second)[:-1] == [
        "1" if n == training.index("--node-rank") + 1 else word
        for n, word in enumerate(training[:-1])
    ]
    assert len(commands(first)) > len(commands(second)) == 1  # all else is the first node's


def test_a_node_has_nothing_to_do_for_other_stages():
    done = dry_run("lm", "--cpu", *TWO_NODES, "--node-rank", 1, "--stop-stage", "code")
    assert commands(done) == [] and "node 0's alone" in done.stderr


@pytest.mark.parametrize(
    ("options", "frequency"),
    [
        (("--gpus", 4, *TWO_NODES, "--node-rank", 0), "1"),
        (("--gpus", 1, *TWO_NODES, "--node-rank", 1), "4"),
        (("--cpu", "--workers", 2), "4"),
        (("--cpu", "--workers", 4, *TWO_NODES, "--node-rank", 0), "1"),
    ],
)
def test_the_papers_batch_on_any_number_of_workers(options, frequency):
    assert value(training_of(dry_run("wmt14_en_de", *options)), "--update-freq") == frequency


def test_workers_that_cannot_share_the_batch():
    done = dry_run("wmt14_en_de", "--gpus", 3, *TWO_NODES, "--node-rank", 0)
    assert_one_line_error(done, "--gpus 3 --nodes 2", "a batch of 6 x N x 4096")
    assert_one_line_error(dry_run("wmt14_en_de", "--cpu", "--workers", 3), "--workers 3: batches")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--cpu", "--nodes", 2, "--master", "a"], ["--nodes 2", "--node-rank R: 0 on the first"]),
        (["--cpu", "--nodes", 2, "--node-rank", 0], ["--nodes 2", "--master HOST"]),
        (["--cpu", *TWO_NODES, "--node-rank", 2], ["--node-rank 2", "from 0 to 1"]),
        (["--cpu", *TWO_NODES, "--node-rank", "first"], ["--node-rank first", "from 0 to 1"]),
        (["--cpu", "--node-rank", 1], ["--node-rank 1", "from 0 to 0"]),
        (["--cpu", "--nodes", 0], ["--nodes 0"]),
        (["--cpu", "--workers", "many"], ["--workers many"]),
        (["--gpus", 2, "--workers", 2], ["--workers 2", "--gpus N"]),
        (["--cpu", "--nodes", 2, "--node-rank", 0, "--master", "a b"], ["--master a b", "HOST"]),
        (["--cpu", "--nodes", 2, "--node-rank", 0, "--master", "a:0"], ["--master a:0", "65535"]),
        (["--cpu", "--nodes", 2, "--node-rank", 0, "--master", "a:70000"], ["--master a:70000"]),
        (["--cpu", "--nodes"], ["--nodes: needs a value"]),
    ],
)
def test_mistaken_options(options, parts):
    assert_one_line_error(dry_run("lm", *options), *parts)


@pytest.mark.parametrize(
    ("named", "count"), [("0,1", 2), ("", 0), ("-1", 0), ("2,-1,3", 1), ("GPU-1a,GPU-2b", 2)]
)
def test_gpus_that_are_named(named, count):
    """As CUDA reads them: what follows -1 is not visible."""
    script = f"source {ROOT}/recipes/lib/launch.sh; gpus_present"
    assert run_bash("-c", script, CUDA_VISIBLE_DEVICES=named).stdout == f"{count}\n"


@pytest.mark.parametrize("name", OF_MANY_TRAININGS)
def test_recipes_of_many_trainings_stay_on_one_node(name):
    for options in (("--nodes", 2), ("--workers", 2), ("--master", "a")):
        assert_one_line_error(dry_run(name, "--cpu", *options), "not for this recipe")
    assert "--nodes" not in run_bash(ROOT / "recipes" / f"{name}.sh", "--help").stdout


@pytest.mark.parametrize("name", RECIPES)
def test_help(name):
    text = run_bash(ROOT / "recipes" / f"{name}.sh", "--help").stdout
    for word in ("--gpus N", "--workers N", "--nodes M", "--node-rank R", "--master HOST[:PORT]"):
        assert word in text


@pytest.fixture
def in_recipe(tmp_path):
    """Runs lines of bash as a translation recipe with these options would; returns its output."""
    script = tmp_path / "made-up.sh"

    def run(lines: str, *options: object) -> str:
        script.write_text(
            f"set -euo pipefail\nrecipe=made-up\nsource {ROOT}/recipes/lib/translation.sh\n"
            f'parse_options "$@"\ncheck_common_options\ncheck_translation_options\n{lines}\n'
        )
        done = run_bash(script, *options, "--work", tmp_path / "work", "--dry-run")
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize(
    ("options", "device"),
    [
        (["--cpu"], "cpu 0"),
        (["--gpus", 8], "gpu 8"),
        (["--gpus", 4, *TWO_NODES, "--node-rank", 0], "gpu 8"),
        (["--gpus", 4, *TWO_NODES, "--node-rank", 1], "gpu 8"),
        (["--cpu", "--workers", 3], "cpu 3"),
    ],
)
def test_keys_hold_the_workers_and_not_their_places(in_recipe, options, device):
    """The first two are those of trainings that were begun before there were nodes."""
    assert in_recipe("echo $(device_key)", *options) == device + "\n"


# The state of a training that was begun by 8 GPUs; then what a start does that has other options.
BEGUN = """
dry_run='' update_freq=1 gpus=8 device=gpu
work_digests() { echo "train.bin abc update-freq device"; }
fresh_folder "$work/checkpoints" "$(training_key)"
touch "$work/checkpoints/checkpoint_last.pt"
"""
GO_ON = """
keep_training_of_other_workers
fresh_folder "$work/checkpoints" "$(training_key)"
[[ "$(<"$work/checkpoints/.key")" == "$(training_key)" ]]
ls "$work/checkpoints"
"""


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ("gpus=4 update_freq=2", True),
        ("gpus=1 update_freq=8", True),
        ("gpus=4 nodes=2", True),
        ("gpus=4", False),
        ("gpus=4 update_freq=3", False),
        ("gpus=4 update_freq=2 seed=7", False),
        ("device=cpu processes=8", False),
    ],
)
def test_the_same_batches_by_other_workers_go_on(in_recipe, change, kept):
    found = in_recipe(BEGUN + change + GO_ON, "--gpus", 8)
    assert ("checkpoint_last.pt" in found) == kept


@pytest.mark.parametrize(
    ("saved", "wanted", "kept"), [(700, 800, True), (700, 700, True), (700, 699, False)]
)
def test_a_training_of_fewer_updates_begins_anew(in_recipe, tmp_path, saved, wanted, kept):
    """What counts is how far it came, as the plugin notes it, not what was asked for before."""
    in_recipe(BEGUN, "--gpus", 8, "--max-update", 900)
    write_progress(tmp_path / "work" / "checkpoints", saved)
    now = BEGUN + "set_other_trainings_aside"
    found = in_recipe(now.replace("touch", ": not") + GO_ON, "--gpus", 8, "--max-update", wanted)
    assert ("checkpoint_last.pt" in found) == kept


def write_program(path: Path, text: str) -> None:
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def sbatch(tmp_path):
    """Runs the Slurm example as Slurm would, its commands after one another on each node."""
    write_program(tmp_path / "scontrol", 'printf "%s\\n" node-a node-b; [[ "$3" == "node-[ab]" ]]')
    each = 'for ((n = 0; n < SLURM_NNODES; n++)); do SLURM_NODEID=$n "$@" || exit; done'
    write_program(tmp_path / "srun", f'while [[ "$1" == --* ]]; do shift; done\n{each}')

    def run(*args: object, nodes: int = 2, gpus: int = 4, folder: Path = ROOT):
        return run_bash(
            ROOT / "recipes" / "slurm" / "wmt14_en_de.sbatch", *args,
            PATH=f"{tmp_path}:{os.environ['PATH']}", SLURM_SUBMIT_DIR=str(folder),
            SLURM_JOB_NODELIST="node-[ab]", SLURM_JOB_ID="4711", SLURM_NNODES=str(nodes),
            SLURM_GPUS_ON_NODE=str(gpus),
        )  # fmt: skip

    return run


def test_slurm_gives_each_node_its_number(sbatch):
    done = sbatch("--dry-run", "--arch", "vaswani_big", "--stage", "train", "--stop-stage", "train")
    trainings = [words for words in commands(done) if words[0] == "torchrun"]
    assert [value(words, "--node-rank") for words in trainings] == ["0", "1"]
    for words in trainings:
        assert (value(words, "--nnodes"), value(words, "--nproc-per-node")) == ("2", "4")
        assert (value(words, "--master-addr"), value(words, "--master-port")) == ("node-a", "24711")
        assert (value(words, "--arch"), value(words, "--update-freq")) == ("vaswani_big", "1")


def test_slurm_with_one_node(sbatch):
    (words,) = commands(sbatch("--dry-run", "--stage", 7, "--stop-stage", 7, nodes=1, gpus=2))
    assert words[0] == "fairseq-train" and value(words, "--update-freq") == "4"


def test_slurm_outside_of_the_repository(sbatch, tmp_path):
    assert_one_line_error(sbatch("--dry-run", folder=tmp_path), "submit it in the repository")
