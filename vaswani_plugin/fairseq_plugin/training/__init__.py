"""Training that continues after faults: `VaswaniTrainer` replaces fairseq's `Trainer`.

* ``trainer``: fairseq's trainer; updates with NaN or infinite gradients are skipped;
* ``checkpoints``: one run in a folder, the newest good checkpoint, saves that keep a good one;
* ``preemption``: on SIGTERM or SIGUSR1 the training saves and exits with its own exit code.
"""

import sys

from vaswani_plugin.fairseq_plugin.training import preemption
from vaswani_plugin.fairseq_plugin.training.trainer import VaswaniTrainer


def install() -> None:
    """Make fairseq's training commands use `VaswaniTrainer`. Calling it again changes nothing.

    The name is replaced in `fairseq.trainer`, from which the commands import it, and in a command
    that is imported already (``__main__`` if it was started by ``python -m``).
    """
    fairseqs = VaswaniTrainer.__base__
    for name in ("fairseq.trainer", "fairseq_cli.train", "__main__"):
        module = sys.modules.get(name)
        if getattr(module, "Trainer", None) is fairseqs:
            module.Trainer = VaswaniTrainer
    preemption.listen()  # the process that starts the workers never makes a trainer
