"""Several workers, on machines without GPUs too: by torchrun, or started by fairseq itself."""

import collections
import os
import random
import typing
from collections.abc import Callable
from typing import Any

import torch
from fairseq.distributed import fully_sharded_data_parallel
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.models import distributed_fairseq_model
from fairseq.trainer import Trainer
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode
from torch.multiprocessing import ProcessRaisedException
from torch.nn.parallel import DistributedDataParallel

from vaswani_plugin import register
from vaswani_plugin.compat.errors import is_users_error
from vaswani_plugin.compat.replacing import is_defect_in_source, is_replaced, replace
from vaswani_plugin.text.messages import wants_traceback

TORCHRUN_VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")


class WorkersError(ValueError):
    """A user's mistake that a worker met; the message says what it is."""


def _runs_on_cpu(cfg: DictConfig) -> bool:
    return not cfg.common.tpu and (cfg.common.cpu or not torch.cuda.is_available())


def join_torchrun() -> None:
    """Defect: ``torchrun fairseq-train --cpu`` starts independent trainings (upstream #2879).

    torchrun's variables are ignored when ``--distributed-world-size`` is 1, its default with one
    GPU or none: each worker then trains alone, all into one folder, with exit code 0. With a world
    size, ``infer_init_method`` divides by the number of GPUs, zero.
    """
    original = distributed_utils.infer_init_method
    if not is_defect_in_source(original, "if cfg.distributed_world_size == 1: return"):
        return

    def infer_init_method(cfg: Any, force_distributed: bool = False) -> None:
        started = all(name in os.environ for name in TORCHRUN_VARIABLES)
        if started and cfg.distributed_init_method is None and not cfg.tpu:
            cfg.distributed_world_size = int(os.environ["WORLD_SIZE"])
            here = cfg.distributed_world_size > 1 and not torch.cuda.is_available()
        else:
            here = False
        if not here:
            original(cfg, force_distributed)
        else:
            cfg.distributed_init_method = "env://"
            cfg.distributed_rank = int(os.environ["RANK"])
            cfg.device_id = int(os.environ.get("LOCAL_RANK", 0))
            cfg.distributed_no_spawn = True

    replace(distributed_utils, "infer_init_method", infer_init_method)


def spawn_on_cpu() -> None:
    """Defect: ``--distributed-world-size 2`` trains nothing on a CPU, exit code 0 (upstream #2879).

    fairseq starts a worker for each GPU: none. Without an init method it fails aloud instead. The
    default backend, nccl, needs GPUs too; on a CPU it is gloo.
    """
    original = distributed_utils.call_main
    if not is_defect_in_source(original, "nprocs=min(torch.cuda.device_count(),"):
        return

    def call_main(cfg: DictConfig, main: Callable, **kwargs: Any) -> None:
        distributed = cfg.distributed_training
        if not _runs_on_cpu(cfg):
            original(cfg, main, **kwargs)
            return
        if distributed.distributed_backend == "nccl":
            distributed.distributed_backend = "gloo"
        if not _starts_its_own_workers(distributed):
            original(cfg, main, **kwargs)
            return
        if distributed.distributed_init_method is None:
            if distributed.distributed_port <= 0:
                distributed.distributed_port = random.randint(10000, 60000)
            distributed.distributed_init_method = f"tcp://localhost:{distributed.distributed_port}"
        _spawn(cfg, main, kwargs)

    replace(distributed_utils, "call_main", call_main)


def _starts_its_own_workers(distributed: Any) -> bool:
    """Whether the workers are ours to start: not torchrun's, not Slurm's, and more than one."""
    outside = all(name in os.environ for name in TORCHRUN_VARIABLES) or any(
        name in os.environ for name in ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")
    )
    given = distributed.distributed_init_method is not None
    return (
        distributed.distributed_world_size > 1
        and not distributed.distributed_no_spawn
        and not distributed.pipeline_model_parallel
        and (given or not outside)
    )


def _spawn(cfg: DictConfig, main: Callable, kwargs: dict[str, Any]) -> None:
    """Start the workers of this node, ranks ``distributed_rank`` and on, and wait for them."""
    distributed = cfg.distributed_training
    first = distributed.distributed_rank or 0
    several = (distributed.distributed_num_procs or 1) > 1
    here = distributed.distributed_num_procs if several else distributed.distributed_world_size
    distributed.distributed_rank = None  # each worker takes first + its number
    try:
        torch.multiprocessing.spawn(
            _work,
            args=(main, cfg, {**kwargs, "start_rank": first}),
            nprocs=min(here, distributed.distributed_world_size - first),
        )
    except ProcessRaisedException as error:
        _, found, message = str(error).rpartition(f"{WorkersError.__name__}: ")
        if found:
            raise WorkersError(message.strip()) from None
        raise


def _work(number: int, main: Callable, cfg: DictConfig, kwargs: dict[str, Any]) -> None:
    """One worker. Being ours, it registers this plugin before anything of fairseq's runs.

    fairseq's loader of `--user-dir` passes over a package that is imported already.
    """
    register()
    try:
        distributed_utils.distributed_main(number, main, cfg, kwargs)
    except Exception as error:
        if wants_traceback() or not is_users_error(error):
            raise
        # PyTorch hands the starting process nothing but the text of a traceback
        raise WorkersError(" ".join(str(error).split())) from None


def explain_fully_sharded() -> None:
    """Defect: ``--ddp-backend fully_sharded`` ends in a traceback (fairseq-fixed 0.12.3.1).

    It needs fairscale, which nobody maintains any more, and GPUs.
    """
    original = distributed_utils.call_main
    if hasattr(original, "explains_fully_sharded"):
        return

    def call_main(cfg: DictConfig, main: Callable, **kwargs: Any) -> None:
        if cfg.distributed_training.ddp_backend == "fully_sharded":
            if not fully_sharded_data_parallel.has_FSDP or _runs_on_cpu(cfg):
                raise ValueError(
                    "--ddp-backend fully_sharded: needs GPUs and the package fairscale, which is"
                    " not maintained any more; choose pytorch_ddp or legacy_ddp"
                )
        original(cfg, main, **kwargs)

    replace(distributed_utils, "call_main", call_main)
    call_main.explains_fully_sharded = True


def wrap_cpu_modules() -> None:
    """Defect: ``--ddp-backend pytorch_ddp`` names a GPU for modules on the CPU (#2879).

    It is the default backend. PyTorch then refuses: "device_ids and output_device arguments only
    work with single-device/multiple-device GPU modules".
    """
    if distributed_fairseq_model.DistributedDataParallel is not DistributedDataParallel:
        return

    class DataParallelOnAnyDevice(DistributedDataParallel):
        def __init__(self, module: torch.nn.Module, **options: Any) -> None:
            if all(parameter.device.type == "cpu" for parameter in module.parameters()):
                options = options | {"device_ids": None, "output_device": None}
            super().__init__(module=module, **options)

    distributed_fairseq_model.DistributedDataParallel = DataParallelOnAnyDevice


def broadcast_checkpoints() -> None:
    """Defect: several workers cannot resume: ``torch.load`` refuses rank 0's broadcast (#5610).

    The state travels pickled, with fairseq's placeholders and OmegaConf's containers. These are
    allowed for this load alone; ``weights_only`` stays on.
    """
    original = distributed_utils._broadcast_object_slow
    if is_replaced(original):
        return
    travelling = (
        *(DictConfig, ListConfig, ContainerMetadata, Metadata, AnyNode, typing.Any),
        *(dict, list, int, collections.defaultdict, distributed_utils._TensorPlaceholder),
    )

    def _broadcast_object_slow(*args: Any, **kwargs: Any) -> Any:
        # on leaving, PyTorch also forgets what somebody else had allowed for good
        allowed = torch.serialization.get_safe_globals()
        new = [kind for kind in travelling if kind not in allowed]
        with torch.serialization.safe_globals(new):
            return original(*args, **kwargs)

    replace(distributed_utils, "_broadcast_object_slow", _broadcast_object_slow)


def agree_on_checkpoints() -> None:
    """Defect: nodes that don't share their ``--save-dir`` hang on a resume.

    In fairseq-fixed 0.12.3.1 each worker looks for itself whether there is a checkpoint. Who sees
    none takes no part in the broadcast of rank 0's, and all wait for one another.
    """
    original = Trainer.load_checkpoint
    if hasattr(original, "agrees_with_others"):
        return

    def load_checkpoint(self: Trainer, filename: str, *args: Any, **kwargs: Any) -> Any:
        workers = self.data_parallel_world_size
        if workers > 1:
            seen = torch.tensor([float(PathManager.isfile(filename))], device=self.device)
            distributed_utils.all_reduce(seen, group=self.data_parallel_process_group)
            if 0 < seen.item() < workers:
                raise ValueError(
                    f"checkpoint {filename}: only {seen.item():.0f} of {workers} workers see it;"
                    " give all nodes the same --save-dir, in a folder that they share"
                )
        return original(self, filename, *args, **kwargs)

    replace(Trainer, "load_checkpoint", load_checkpoint)
    load_checkpoint.agrees_with_others = True


def gather_lists_on_cpu() -> None:
    """Defect: ``all_gather_list`` asks for a CUDA buffer and pinned memory on a CPU (#2879).

    Criterions whose logs cannot be summed need it.
    """
    original = distributed_utils.all_gather_list
    if not is_defect_in_source(original, "torch.cuda.ByteTensor(buffer_size)"):
        return

    def all_gather_list(data: Any, group: Any = None, max_size: int = 16384) -> list[Any]:
        if not torch.cuda.is_available():
            used = distributed_utils.get_global_group() if group is None else group
            size = max_size * distributed_utils.get_world_size(used)
            # fairseq keeps its buffers on whatever bears its name: the function below
            all_gather_list._buffer = torch.ByteTensor(size)
            all_gather_list._cpu_buffer = torch.ByteTensor(max_size)
        return original(data, group, max_size)

    replace(distributed_utils, "all_gather_list", all_gather_list)
