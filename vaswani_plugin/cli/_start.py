"""The start of a command that needs a model."""

import logging

from vaswani_plugin import register
from vaswani_plugin.errors import UserError


def start_fairseq() -> None:
    """Import fairseq with the plugin registered, and keep the level of the log.

    Importing fairseq sets the root logger to DEBUG, and every library would speak.

    Raises:
        UserError: fairseq is not installed.
    """
    root = logging.getLogger()
    level = root.level
    try:
        register()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "fairseq":
            raise
        raise UserError(
            "this command needs fairseq, which is not installed here: run it in the environment of "
            "a checkout (bash recipes/lib/env.sh), or install fairseq-fixed with pip's --no-deps"
        ) from error
    finally:
        root.setLevel(level)
