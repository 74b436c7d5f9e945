"""Dictionaries: a broken one is named; a sentence is looked up as numbers."""

from typing import Any

import torch
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


def look_up_numbers() -> None:
    """Defect: `Dictionary.string` compares each token of a sentence as a tensor.

    `fairseq-generate` (fairseq-fixed 0.12.3.1) asks three sentences of it for each that it
    translates. As numbers they take a twelfth of the time, and the words are the same.
    """
    original = Dictionary.string
    if is_replaced(original):
        return

    def string(self: Dictionary, tensor: Any, *args: Any, **kwargs: Any) -> str:
        if torch.is_tensor(tensor) and tensor.dim() == 1:
            tensor = tensor.tolist()
        return original(self, tensor, *args, **kwargs)

    replace(Dictionary, "string", string)
