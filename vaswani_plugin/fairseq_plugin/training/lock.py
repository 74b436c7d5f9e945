"""One run at a time in a save folder: two would overwrite each other's checkpoints."""

import errno
import logging
import os
import socket
from pathlib import Path
from typing import TextIO

from vaswani_plugin.errors import UserError

try:
    import fcntl
except ImportError:  # Windows, where nothing here is locked
    fcntl = None

logger = logging.getLogger(__name__)

LOCK = ".lock"
_held: dict[Path, TextIO] = {}


class FolderInUse(UserError):
    """Another process trains into the same folder; the message says which."""


def hold(folder: Path) -> None:
    """Lock a save folder for the life of this process.

    This is a record lock (``lockf``). The system releases it when the process ends, also after a
    kill. Data-loader workers, which may outlive a killed run by seconds, don't inherit it.

    Args:
        folder: --save-dir; created if it is missing.

    Raises:
        FolderInUse: when another process holds it.
    """
    folder = folder.resolve()
    if folder in _held or fcntl is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    file = open(folder / LOCK, "a+", encoding="utf-8")  # open, and locked, until the end
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        holder = file.read().strip() or "another process"
        file.close()
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            logger.warning(
                "--save-dir %s: the file system has no locks (%s); make sure that no other run "
                "writes there",
                folder,
                error.strerror,
            )
            return
        raise FolderInUse(
            f"--save-dir {folder} is in use by {holder}: wait for it, end it, or give another"
            " --save-dir"
        ) from None
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}")
    file.flush()
    _held[folder] = file
