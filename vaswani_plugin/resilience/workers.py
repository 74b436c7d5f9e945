"""Several workers end together: the process that started them says why, and hands signals on."""

from typing import Any

from fairseq.distributed import utils as distributed_utils
from torch.multiprocessing import ProcessExitedException

from vaswani_plugin.compat.replacing import replace
from vaswani_plugin.resilience import preemption


class WorkerLost(ValueError):
    """A worker was ended from outside; the message says how."""


def end_workers_together() -> None:
    """Turn a worker's end into the starter's: its exit code, or one line that names the signal.

    PyTorch ends the others, by SIGKILL after half a minute where nothing else helps.
    """
    original = distributed_utils.call_main

    def call_main(*args: Any, **kwargs: Any) -> None:
        preemption.listen(is_training=False)
        try:
            original(*args, **kwargs)
        except ProcessExitedException as error:
            asked = preemption.was_asked() and error.signal_name is not None
            if asked or error.exit_code == preemption.EXIT_CODE:
                raise SystemExit(preemption.EXIT_CODE) from None
            if error.signal_name is None:
                raise
            raise WorkerLost(
                f"worker {error.error_index} was ended by {error.signal_name} (out of memory, or"
                " by hand), and the others with it: the same command goes on from the last save"
            ) from error

    replace(distributed_utils, "call_main", call_main)
