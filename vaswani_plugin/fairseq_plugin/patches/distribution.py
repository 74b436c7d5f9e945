"""Several workers: started by torchrun or by fairseq, with and without GPUs."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fairseq.distributed import utils as distributed_utils
from fairseq.models import distributed_fairseq_model
from omegaconf import DictConfig
from torch.distributed.elastic.utils.distributed import get_free_port
from torch.multiprocessing import ProcessExitedException
from torch.nn.parallel import DistributedDataParallel

from vaswani_plugin import register
from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin import preemption
from vaswani_plugin.fairseq_plugin.patches._patching import patch
from vaswani_plugin.fairseq_plugin.patches.command_lines import is_printed
from vaswani_plugin.processor import runs_on_host

TORCHRUN_VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")


def join_torchrun() -> None:
    """``torchrun fairseq-train --cpu`` starts independent trainings into one folder.

    fairseq ignores torchrun's variables with a single GPU or none, and else divides by the GPUs.

    Upstream: #2879.
    """

    @patch(distributed_utils, "infer_init_method")
    def infer_init_method(original: Callable, cfg: Any, force_distributed: bool = False) -> None:
        if is_under_torchrun() and cfg.distributed_init_method is None:
            cfg.distributed_world_size = int(os.environ["WORLD_SIZE"])
            if cfg.distributed_world_size > 1 and not torch.cuda.is_available():
                cfg.distributed_init_method = "env://"
                cfg.distributed_rank = int(os.environ["RANK"])
                cfg.device_id = int(os.environ.get("LOCAL_RANK", 0))
                cfg.distributed_no_spawn = True
                return
        original(cfg, force_distributed)


def is_under_torchrun() -> bool:
    """Whether torchrun, or what sets its variables, has started this process."""
    return all(name in os.environ for name in TORCHRUN_VARIABLES)


def start_workers() -> None:
    """``--distributed-world-size 2`` trains nothing on a CPU, with exit code 0.

    fairseq starts a worker a GPU, so none there. Now it does, by gloo; one that fails ends all.

    Upstream: #2879.
    """

    @patch(distributed_utils, "call_main")
    def call_main(original: Callable, cfg: DictConfig, main: Callable, **kwargs: Any) -> None:
        distributed, shards = cfg.distributed_training, cfg.dataset.num_shards
        command = Path(main.__code__.co_filename).stem
        if shards > 1 and command != "eval_lm":
            raise UserError(
                f"--num-shards {shards}: {command} would take all sentences in each shard; split"
                f" the text (`split -n l/{shards}`), and give each part to a command of its own"
            )
        on_cpu = cfg.common.cpu or not torch.cuda.is_available()
        if on_cpu and distributed.distributed_backend == "nccl":
            distributed.distributed_backend = "gloo"
        are_started = distributed.distributed_no_spawn or is_under_torchrun()
        if distributed.distributed_init_method is None:
            if on_cpu and distributed.distributed_world_size > 1 and not are_started:
                distributed.distributed_init_method = f"tcp://localhost:{get_free_port()}"
            else:
                distributed_utils.infer_init_method(distributed)
        if distributed.distributed_init_method is None or distributed.distributed_no_spawn:
            original(cfg, main, **kwargs)
            return
        kwargs["start_rank"] = distributed.distributed_rank
        distributed.distributed_rank = None  # each worker takes its number
        workers = distributed.distributed_world_size
        if not on_cpu:
            workers = min(torch.cuda.device_count(), workers)
        # A worker that is still starting would answer Ctrl-C with a traceback.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        context = torch.multiprocessing.spawn(_work, (main, cfg, kwargs), workers, join=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        try:
            while not context.join():
                pass
        except ProcessExitedException as error:
            code = preemption.REQUEST.code
            if error.signal_name in ("SIGTERM", "SIGUSR1"):
                code = code or preemption.EXIT_CODE
            elif error.signal_name is not None:
                raise UserError(
                    f"worker {error.error_index} of {workers} was killed by {error.signal_name}, so"
                    " all have ended: look at the memory; the same command goes on"
                ) from None
            raise SystemExit(code or error.exit_code) from None


def _work(number: int, main: Callable, cfg: DictConfig, kwargs: dict[str, Any]) -> None:
    """Run one worker; fairseq's loader of `--user-dir` skips a package that is imported already."""
    register()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # Data-loader workers are forks, as without spawn: new processes would answer every signal.
    multiprocessing.set_start_method(multiprocessing.get_all_start_methods()[0], force=True)
    try:
        distributed_utils.distributed_main(number, main, cfg, kwargs)
    except Exception as error:
        if not is_printed(error):
            raise
        raise SystemExit(1) from None


def wrap_cpu_modules() -> None:
    """``--ddp-backend pytorch_ddp``, the default, is refused on a CPU.

    fairseq passes a GPU's number for modules on the CPU.

    Upstream: #2879.
    """
    if distributed_fairseq_model.DistributedDataParallel is not DistributedDataParallel:
        return

    class DataParallelOnAnyDevice(DistributedDataParallel):
        def __init__(self, module: torch.nn.Module, **options: Any) -> None:
            if all(runs_on_host(parameter.device) for parameter in module.parameters()):
                options = options | {"device_ids": None, "output_device": None}
            super().__init__(module=module, **options)

    distributed_fairseq_model.DistributedDataParallel = DataParallelOnAnyDevice
