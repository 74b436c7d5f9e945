"""The start of a command that needs a model."""

import argparse
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vaswani_plugin import register

if TYPE_CHECKING:
    from vaswani_plugin.inference.language_model import LanguageModel
    from vaswani_plugin.inference.parsing import Parser

Model = TypeVar("Model")


def start_fairseq() -> None:
    """Import fairseq with the plugin registered, and keep the level of the log.

    Importing fairseq sets the root logger to DEBUG, and every library would speak.
    """
    root = logging.getLogger()
    level = root.level
    register()
    root.setLevel(level)


def load_own_or_foreign(own: Callable[[], Model], foreign: Callable[[], Model]) -> Model:
    """What `own` loads by torch alone, or `foreign` where only fairseq can build the model.

    Raises:
        ValueError: the model needs fairseq, which isn't installed, or can't be used.
        OSError: a file can't be read.
    """
    from vaswani_plugin.inference.bundle import ForeignModel

    try:
        return own()
    except ForeignModel as error:
        try:
            start_fairseq()
        except ModuleNotFoundError as missing:
            raise ValueError(f"{error}, and fairseq can't be imported ({missing})") from missing
    return foreign()


def load_language_model(args: argparse.Namespace, data: Path | None = None) -> "LanguageModel":
    """The model of --model.

    Args:
        args: with the flags of `add_processor` and --model.
        data: with a checkpoint: the folder of its dictionary.

    Raises:
        ValueError: it is no language model, or can't be used.
        OSError: a file can't be read.
    """
    from vaswani_plugin.cli._flags import processor
    from vaswani_plugin.inference.language_model import LanguageModel

    device = processor(args)

    def load_foreign() -> LanguageModel:
        from vaswani_plugin.interchange.language_model import load_language_model as load

        return load(args.model, data, device)

    return load_own_or_foreign(
        lambda: LanguageModel.from_pretrained(args.model, data=data, device=device), load_foreign
    )


def load_parser(args: argparse.Namespace) -> "Parser":
    """The parser of --model.

    Args:
        args: with the flags of `add_processor` and --model.

    Raises:
        ValueError: it is no parser's bundle, or can't be used.
        OSError: a file can't be read.
    """
    from vaswani_plugin.cli._flags import processor
    from vaswani_plugin.inference.parsing import Parser

    device = processor(args)

    def load_foreign() -> Parser:
        from vaswani_plugin.interchange.parsing import load_parser as load

        return load(args.model, device)

    return load_own_or_foreign(
        lambda: Parser.from_pretrained(args.model, device=device), load_foreign
    )
