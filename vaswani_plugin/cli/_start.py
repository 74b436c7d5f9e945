"""The start of a command that needs a model."""

import logging

from vaswani_plugin import register


def start_fairseq() -> None:
    """Import fairseq with the plugin registered, and keep the level of the log.

    Importing fairseq sets the root logger to DEBUG, and every library would log.
    """
    root = logging.getLogger()
    level = root.level
    register()
    root.setLevel(level)
