"""Several workers without GPUs train one model, the one that a single worker trains."""

import contextlib
import random
import socket
from types import SimpleNamespace

import pytest
import torch
from fairseq.distributed import utils as distributed_utils
from fairseq_cli import generate, interactive, train
from fairseq_flags import training_config
from omegaconf import DictConfig

import vaswani_plugin
from tests.conftest import STOCK_TINY
from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.patches import distribution

vaswani_plugin.register()

HOST = {"distributed_init_method": "tcp://host:1"}
needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="mends machines without GPUs")


def test_a_workers_complaint_reaches_the_user(toy_data_bin, run_fairseq, tmp_path):
    (tmp_path / "checkpoint_last.pt").write_bytes(b"PK half a checkpoint")
    run = run_fairseq(
        "train", toy_data_bin, *STOCK_TINY, "--distributed-world-size", 2, "--save-dir", tmp_path
    )
    assert run.returncode == 1
    assert f"\nerror: checkpoint {tmp_path}" in f"\n{run.stderr}"


@needs_no_gpu
def test_two_trainings_at_once_meet_at_ports_of_their_own(monkeypatch):
    """Whatever seed a program has set: the first one listens still when the second one starts."""
    addresses = []

    def spawn(function, args, *options, **more):
        addresses.append(args[1].distributed_training.distributed_init_method)
        return SimpleNamespace(join=lambda: True)

    monkeypatch.setattr(torch.multiprocessing, "spawn", spawn)
    with contextlib.ExitStack() as listening:
        for _ in range(2):
            random.seed(1)
            distributed_utils.call_main(settings(distributed_world_size=2), train.main)
            port = int(addresses[-1].removeprefix("tcp://localhost:"))
            listening.enter_context(socket.create_server(("localhost", port)))
    assert len(set(addresses)) == 2


def settings(**changes) -> DictConfig:
    """fairseq-train's configuration on a CPU, with other values of its distributed part."""
    cfg = training_config("--arch", "vaswani_debug", "--cpu").copy()
    cfg.distributed_training.update(changes)
    return cfg


@needs_no_gpu
@pytest.mark.parametrize("asked", [1, 2])
def test_torchruns_variables_decide(monkeypatch, asked):
    values = {"WORLD_SIZE": "4", "RANK": "3", "LOCAL_RANK": "1", "MASTER_ADDR": "a"}
    for name, value in (values | {"MASTER_PORT": "1"}).items():
        monkeypatch.setenv(name, value)
    cfg = settings(distributed_world_size=asked).distributed_training
    distributed_utils.infer_init_method(cfg)
    assert cfg.distributed_init_method == "env://" and cfg.distributed_no_spawn
    assert (cfg.distributed_world_size, cfg.distributed_rank, cfg.device_id) == (4, 3, 1)


@pytest.mark.parametrize(
    ("world", "more", "ranks"),
    [
        (3, {}, [0, 1, 2]),
        (3, HOST, [0, 1, 2]),
        (1, {}, ["alone"]),
        (2, HOST | {"distributed_no_spawn": True}, ["here"]),
    ],
)
def test_who_starts_which_workers(monkeypatch, world, more, ranks):
    for name in distribution.TORCHRUN_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    started = []

    def spawn(function, args, nprocs, join):
        _, cfg, kwargs = args
        assert cfg.distributed_training.distributed_backend == "gloo"
        assert cfg.distributed_training.distributed_init_method.startswith("tcp://")
        started.extend(kwargs["start_rank"] + number for number in range(nprocs))
        return SimpleNamespace(join=lambda: True)

    monkeypatch.setattr(torch.multiprocessing, "spawn", spawn)
    monkeypatch.setattr(distributed_utils, "distributed_main", lambda *args: started.append("here"))
    cfg = settings(distributed_world_size=world, **more)
    distributed_utils.call_main(cfg, lambda cfg: started.append("alone"))
    assert started == ranks


@pytest.mark.parametrize(
    ("command", "flags", "message"),
    [
        (generate, ("--num-shards", "2"), "fairseq-generate takes no shards"),
        (generate, ("--distributed-world-size", "2"), "fairseq-generate takes no shards"),
        (generate, ("--constraints",), "--constraints: only fairseq-interactive reads them"),
        (interactive, ("--replace-unk",), "--replace-unk: give a file of word pairs, or ''"),
        (interactive, ("--print-alignment", "soft"), "only fairseq-generate prints it; give hard"),
        (train, ("--num-shards", "2"), "train would take all sentences in each shard"),
    ],
)
def test_what_a_command_would_ignore(monkeypatch, command, flags, message):
    more = ("--arch", "vaswani_debug") if command is train else ("--path", "x")
    monkeypatch.setattr("sys.argv", ["fairseq", "DATA", *more, *flags])
    with pytest.raises(UserError, match=message):
        command.cli_main()
