"""How a training starts: lock the folder, tidy it, check the data, load, see what is left to do."""

import logging
import math
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.trainer import Trainer

from vaswani_plugin.compat.replacing import replace
from vaswani_plugin.resilience import lock, preemption
from vaswani_plugin.resilience.folder import saved_states
from vaswani_plugin.resilience.manifest import DataManifest, data_files
from vaswani_plugin.resilience.resuming import is_automatic, is_complete, last_checkpoint

logger = logging.getLogger(__name__)


def begin_runs_in_order() -> None:
    """Before a checkpoint is loaded: signals, lock, leftovers, data. At each epoch: data again."""
    original, begin_epoch = checkpoint_utils.load_checkpoint, Trainer.begin_epoch

    def load_checkpoint(cfg: CheckpointConfig, trainer: Trainer, **kwargs: Any) -> Any:
        preemption.listen(is_training=True)
        if trainer.is_data_parallel_master and not cfg.no_save:
            lock.hold(Path(cfg.save_dir))
            for leftover in Path(cfg.save_dir).glob("checkpoint*.pt.tmp"):
                leftover.unlink()
            trainer.vaswani_manifest = _check_data(cfg, trainer)
        extra_state, batches = original(cfg, trainer, **kwargs)
        if is_complete(trainer):
            _stop(trainer)
        return extra_state, batches

    def check_and_begin_epoch(self: Trainer, epoch: int) -> None:
        if hasattr(self, "vaswani_manifest"):
            self.vaswani_manifest.check()
        begin_epoch(self, epoch)

    replace(checkpoint_utils, "load_checkpoint", load_checkpoint)
    replace(Trainer, "begin_epoch", check_and_begin_epoch)


def _check_data(cfg: CheckpointConfig, trainer: Trainer) -> DataManifest:
    dataset = trainer.cfg.dataset
    subsets = [*dataset.train_subset.split(","), *dataset.valid_subset.split(",")]
    data = getattr(trainer.cfg.task, "data", None)
    last = last_checkpoint(trainer)
    manifest = DataManifest(data_files(data or "", subsets), last.parent)
    has_begun = last.is_file() or saved_states(last.parent, trainer.checkpoint_suffix)
    if is_automatic(trainer) and has_begun and not cfg.reset_dataloader:
        manifest.go_on()
    else:
        manifest.begin()
    return manifest


def _stop(trainer: Trainer) -> None:
    """End a training that has all its updates: fairseq would add one.

    A run that is killed after its last save, before anybody noted that it had finished, ends as the
    same model when it is started again.
    """
    updates, wanted = trainer.get_num_updates(), trainer.cfg.optimization.max_update
    logger.info("the training was complete: %d of %d updates", updates, wanted)
    # fairseq's only way out before a first update
    trainer.cfg.optimization.stop_min_lr = math.inf
