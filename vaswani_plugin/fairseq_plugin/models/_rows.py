"""Registers a model's rows of sizes with fairseq, as `--arch` names."""

import argparse
from collections.abc import Iterable
from dataclasses import fields

from fairseq.models import register_model_architecture

from vaswani_plugin.errors import UserError
from vaswani_plugin.model.architectures import Architecture

MULTILINGUAL = "multilingual_translation"
LANGUAGE_MODEL = "vaswani_lm"
"""The names of our language models begin with it."""
TASKS_OF_PAIRS = ("translation", "vaswani_translation", "vaswani_parsing")
TASKS_OF_TEXT = ("language_modeling", "vaswani_language_modeling")


def register_rows(model_name: str, config: type, rows: Iterable[Architecture]) -> None:
    """Make each row an `--arch`; fairseq registers the row with the model's own name itself.

    A row sets only what the command line left unset.

    Args:
        model_name: the model's name in fairseq.
        config: the model's dataclass.
        rows: the architectures.

    Raises:
        ValueError: when a row sets a key that the configuration lacks.
    """
    for row in rows:
        unknown = set(row.changes) - {f.name for f in fields(config)}
        if unknown:
            raise ValueError(f"{row.name} sets unknown keys: {', '.join(sorted(unknown))}")
        if row.name != model_name:
            is_language_model = model_name.startswith(LANGUAGE_MODEL)
            register_model_architecture(model_name, row.name)(_setter(row, is_language_model))


def _setter(row: Architecture, is_language_model: bool):
    def set_unset_keys(args: argparse.Namespace) -> None:
        task = getattr(args, "task", None)
        if task == MULTILINGUAL:
            raise UserError(
                f"--task {MULTILINGUAL} needs an architecture with an encoder and a decoder a "
                f"language, such as multilingual_transformer; --arch {row.name} has one of each"
            )
        if is_language_model and task in TASKS_OF_PAIRS:
            raise UserError(
                f"--arch {row.name} is a language model: give --task vaswani_language_modeling, "
                f"not {task}"
            )
        if not is_language_model and task in TASKS_OF_TEXT:
            raise UserError(
                f"--arch {row.name} has an encoder: give --task vaswani_translation, not {task}, "
                f"or a language model such as vaswani_lm_base"
            )
        for key, value in row.changes.items():
            if getattr(args, key, None) is None:
                setattr(args, key, value)

    return set_unset_keys
