"""A start goes on from the newest good checkpoint of its folder, and says what was lost."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.trainer import Trainer

from vaswani_plugin.checkpoint_sums import damage
from vaswani_plugin.compat.errors import CheckpointError
from vaswani_plugin.compat.replacing import replace
from vaswani_plugin.resilience.folder import LAST_IS_GOOD, noted_progress, saved_states, updates_of
from vaswani_plugin.resilience.saving import SaveFailed

logger = logging.getLogger(__name__)

AUTOMATIC = "checkpoint_last.pt"
"""fairseq's default of --restore-file: "go on, if there is anything to go on from"."""


def go_on_from_the_newest_good_checkpoint() -> None:
    """Where checkpoint_last.pt is damaged, missing or older than another, take the other.

    Only for the automatic --restore-file: a file that the user named is used or refused.
    """
    original = Trainer.load_checkpoint

    def load_checkpoint(self: Trainer, filename: str, *args: Any, **kwargs: Any) -> Any:
        last = last_checkpoint(self)
        if not is_automatic(self) or Path(filename) != last:
            return original(self, filename, *args, **kwargs)
        chosen = _choose_for_all(self, last)
        extra_state = original(self, str(chosen), *args, **kwargs)
        setattr(self, LAST_IS_GOOD, chosen == last)
        if chosen != last:
            _say_what_was_lost(self, chosen, last)
            if is_complete(self):
                _put_back(self, chosen, last)
        return extra_state

    replace(Trainer, "load_checkpoint", load_checkpoint)


def is_complete(trainer: Trainer) -> bool:
    """Whether a training that was loaded has all its updates."""
    wanted = trainer.cfg.optimization.max_update
    return bool(wanted) and trainer.get_num_updates() >= wanted


def _put_back(trainer: Trainer, chosen: Path, last: Path) -> None:
    """Make what was loaded checkpoint_last.pt: a training that is complete doesn't save again."""
    if trainer.cfg.checkpoint.no_save or not trainer.should_save_checkpoint_on_current_rank:
        return
    try:
        PathManager.copy(str(chosen), str(last), overwrite=True)  # whole, or not at all
    except OSError as error:
        raise SaveFailed(
            f"{last} can't be made a copy of {chosen}, the newest good checkpoint"
            f" ({error.strerror or error}): make room, and start again"
        ) from error
    logger.warning("%s is put back: a copy of %s", last, chosen)


def last_checkpoint(trainer: Trainer) -> Path:
    """Where fairseq looks when it isn't told."""
    settings = trainer.cfg.checkpoint
    return Path(settings.save_dir, f"checkpoint_last{trainer.checkpoint_suffix}.pt")


def is_automatic(trainer: Trainer) -> bool:
    """Whether the user left it to fairseq what to go on from."""
    settings = trainer.cfg.checkpoint
    is_whole = not trainer.is_fsdp  # and not a shard, of which each worker has another
    return settings.restore_file == AUTOMATIC and is_whole and not settings.no_last_checkpoints


def _choose_for_all(trainer: Trainer, last: Path) -> Path:
    """What the first worker chose, in each worker's own folder: only one has to read the files."""
    is_first = trainer.is_data_parallel_master
    name = choose(last, trainer.checkpoint_suffix).name if is_first else None
    if trainer.data_parallel_world_size > 1:
        group, device = trainer.data_parallel_process_group, trainer.device
        name = distributed_utils.broadcast_object(name, 0, group, device)
    return last.with_name(name)


def choose(last: Path, suffix: str) -> Path:
    """The newest good state of a folder; `last` where there is none at all, as at a first start.

    Args:
        last: where fairseq looks.
        suffix: fairseq's, "" without shards.

    Raises:
        CheckpointError: when there are states, and all are damaged.
    """
    damaged = []
    for path in in_order_of_use(last, suffix):
        wrong = damage(path)
        if wrong is None:
            return path
        logger.warning("%s %s: looking for the checkpoint before it", path, wrong)
        damaged.append((path, wrong))
    # one so damaged that it doesn't tell its update is no candidate, but no reason to begin anew
    unknown = ((path, damage(path)) for path in saved_states(last.parent, suffix))
    damaged += [(path, wrong) for path, wrong in unknown if wrong]
    if damaged:
        path, wrong = damaged[0]
        raise CheckpointError(
            f"checkpoint {path} cannot be read: it {wrong}, and there is no good one in its folder;"
            " use another one that you put back there, or give another --save-dir to train from the"
            " start"
        )
    return last


def in_order_of_use(last: Path, suffix: str) -> Iterator[Path]:
    """The states of a folder, that of the most updates first.

    A save writes its other files before `last`: one that is newer was left by a save that was
    broken off, and is complete. Without such a one nothing but `last` is opened.
    """
    others = saved_states(last.parent, suffix)
    newer: list[Path] = others
    if last.is_file():
        written = last.stat().st_mtime_ns
        newer = [path for path in others if path.stat().st_mtime_ns > written]
        newer = [path for path in newer if (updates_of(path) or 0) > (updates_of(last) or 0)]
    yield from _by_updates(newer)
    if last.is_file():
        yield last
        yield from _by_updates(path for path in others if path not in newer)


def _by_updates(paths: Any) -> list[Path]:
    found = [(updates, path) for path in paths if (updates := updates_of(path)) is not None]
    return [path for _, path in sorted(found, reverse=True)]


def _say_what_was_lost(trainer: Trainer, path: Path, last: Path) -> None:
    updates, saved = trainer.get_num_updates(), noted_progress(last.parent)
    if saved is None:
        lost = "what was saved after it, if anything, is lost and trained again"
    elif saved > updates:
        lost = f"{saved - updates} updates, up to the last save's {saved}, are trained again"
    else:
        lost = "no update is lost"
    logger.warning("going on from %s, update %d: %s", path, updates, lost)
