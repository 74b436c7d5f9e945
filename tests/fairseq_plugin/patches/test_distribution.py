"""Several workers without GPUs train one model, the one that a single worker trains.

Our own models, tasks and launchers are in tests/distributed.
"""

import argparse

import pytest
import torch
from fairseq.distributed import utils as distributed_utils
from omegaconf import OmegaConf

import vaswani_plugin
from tests.conftest import STOCK_TINY
from vaswani_plugin.fairseq_plugin.patches import distribution

vaswani_plugin.register()

needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="mends machines without GPUs")


def test_a_workers_complaint_reaches_the_user(toy_data_bin, run_fairseq, tmp_path):
    (tmp_path / "checkpoint_last.pt").write_bytes(b"PK half a checkpoint")
    run = run_fairseq(
        "train", toy_data_bin, *STOCK_TINY, "--distributed-world-size", 2, "--save-dir", tmp_path
    )
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith(f"error: checkpoint {tmp_path}")
    assert "Traceback" not in run.stderr


HOST = {"distributed_init_method": "tcp://host:1"}


def training(**changes) -> argparse.Namespace:
    settings = {
        "distributed_init_method": None,
        "distributed_world_size": 1,
        "distributed_rank": 0,
        "distributed_no_spawn": False,
        "distributed_num_procs": 1,
        "distributed_port": -1,
        "distributed_backend": "nccl",
        "pipeline_model_parallel": False,
        "ddp_backend": "pytorch_ddp",
        "device_id": 0,
        "tpu": False,
    }
    return argparse.Namespace(**settings | changes)


@needs_no_gpu
@pytest.mark.parametrize("asked", [1, 2])
def test_torchruns_variables_decide(monkeypatch, asked):
    values = {"WORLD_SIZE": "4", "RANK": "3", "LOCAL_RANK": "1", "MASTER_ADDR": "a"}
    for name, value in (values | {"MASTER_PORT": "1"}).items():
        monkeypatch.setenv(name, value)
    cfg = training(distributed_world_size=asked)
    distributed_utils.infer_init_method(cfg)
    assert cfg.distributed_init_method == "env://" and cfg.distributed_no_spawn
    assert (cfg.distributed_world_size, cfg.distributed_rank, cfg.device_id) == (4, 3, 1)


@pytest.mark.parametrize(
    ("world", "more", "ranks"),
    [
        (3, {}, [0, 1, 2]),
        (3, HOST, [0, 1, 2]),
        # the second of two nodes with two workers each
        (4, HOST | {"distributed_num_procs": 2, "distributed_rank": 2}, [2, 3]),
        (1, {}, ["alone"]),
        (2, HOST | {"distributed_no_spawn": True}, ["here"]),
    ],
)
def test_who_starts_which_workers(monkeypatch, world, more, ranks):
    for name in distribution.TORCHRUN_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    started = []

    def spawn(function, args, nprocs):
        _, cfg, kwargs = args
        assert cfg.distributed_training.distributed_backend == "gloo"
        assert cfg.distributed_training.distributed_init_method.startswith("tcp://")
        started.extend(kwargs["start_rank"] + number for number in range(nprocs))

    monkeypatch.setattr(torch.multiprocessing, "spawn", spawn)
    monkeypatch.setattr(distributed_utils, "distributed_main", lambda *args: started.append("here"))
    settings = vars(training(distributed_world_size=world, **more))
    common = {"cpu": True, "tpu": False}
    cfg = OmegaConf.create({"common": common, "distributed_training": settings})
    distributed_utils.call_main(cfg, lambda cfg: started.append("alone"))
    assert started == ranks
