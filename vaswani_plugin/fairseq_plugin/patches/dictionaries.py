"""Dictionaries: errors name the broken file."""

from collections.abc import Callable
from typing import Any

from fairseq.data import Dictionary

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.patches._patching import patch


class DictionaryError(UserError):
    """A file that is no dictionary; the message names it."""


def name_broken_dictionaries() -> None:
    """A broken dict.txt is refused without its name.

    The error is a ValueError, a RuntimeError or a bare Exception with the whole line, whatever its
    length. Now it names the file.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """

    @patch(Dictionary, "add_from_file")
    def add_from_file(original: Callable, self: Dictionary, f: Any) -> None:
        if not isinstance(f, str):
            return original(self, f)
        try:
            return original(self, f)
        except OSError:
            raise
        except Exception as error:
            reason = str(error).split(". ")[0]
            raise DictionaryError(
                f"{f}: not a dictionary: {reason}; give the one that was made with the data"
            ) from error
