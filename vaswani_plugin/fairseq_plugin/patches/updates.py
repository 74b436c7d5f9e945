"""A batch that does not fit into memory is skipped, on a CPU as on a GPU."""

from collections.abc import Callable
from typing import Any

from fairseq.tasks import FairseqTask

from vaswani_plugin.fairseq_plugin.patches._patching import patch

CPU_ALLOCATOR = "can't allocate memory"


def skip_batches_out_of_cpu_memory() -> None:
    """A batch that is too large for the memory ends a training on a CPU.

    On a GPU it is skipped: fairseq looks for the words "out of memory", which PyTorch's allocator
    for CPUs and Python do not use.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """

    @patch(FairseqTask, "train_step")
    def train_step(original: Callable, self: FairseqTask, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, *args, **kwargs)
        except (MemoryError, RuntimeError) as error:
            if not (isinstance(error, MemoryError) or CPU_ALLOCATOR in str(error)):
                raise
            raise RuntimeError(f"out of memory: {error}") from error
