"""Training that continues after faults: `VaswaniTrainer`, in the place of fairseq's `Trainer`.

The trainer owns one small helper a subject:

* ``lock``: one run at a time in a save folder;
* ``manifest``: the data are those that the training began with;
* ``resuming``: the newest good checkpoint, where the last one is damaged or missing;
* ``saving``: a save that fails ends the training in one line, and the one before it is kept;
* ``preemption``: SIGTERM and SIGUSR1 save and leave with an exit code of their own;
* ``nonfinite``: updates with NaN or infinite gradients are skipped;
* ``metering``: what --log-mfu logs.
"""

import sys

from vaswani_plugin.training import preemption
from vaswani_plugin.training.trainer import VaswaniTrainer


def install() -> None:
    """Make fairseq's training commands use `VaswaniTrainer`. Calling it again changes nothing.

    The name is changed where the commands look it up: in `fairseq.trainer`, from which they import
    it, and in the command itself where that was imported before (run by ``python -m``, it is
    ``__main__``).
    """
    fairseqs = VaswaniTrainer.__base__
    for name in ("fairseq.trainer", "fairseq_cli.train", "__main__"):
        module = sys.modules.get(name)
        if getattr(module, "Trainer", None) is fairseqs:
            module.Trainer = VaswaniTrainer
    preemption.listen()  # the process that starts the workers never makes a trainer
