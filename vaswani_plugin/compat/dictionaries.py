"""Dictionaries: a broken one is named."""

from typing import Any

from fairseq.data import Dictionary

from vaswani_plugin.compat.replacing import is_replaced, replace


class DictionaryError(ValueError):
    """A file that is no dictionary; the message names it."""


def name_broken_dictionaries() -> None:
    """Defect: a broken dict.txt fails without its name (fairseq-fixed 0.12.3.1).

    As a ValueError, a RuntimeError or a bare Exception, with the whole line however long it is.
    """
    original = Dictionary.add_from_file
    if is_replaced(original):
        return

    def add_from_file(self: Dictionary, f: Any) -> None:
        if not isinstance(f, str):
            return original(self, f)
        try:
            return original(self, f)
        except OSError:
            raise
        except Exception as error:
            reason = str(error).split(". ")[0]
            raise DictionaryError(
                f"{f}: no dictionary: {reason}; give the one that was made with the data"
            ) from error

    replace(Dictionary, "add_from_file", add_from_file)
