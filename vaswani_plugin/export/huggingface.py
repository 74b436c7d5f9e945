"""Exports a bundle to Hugging Face's transformers, by the kind of its model."""

from pathlib import Path

from vaswani_plugin.errors import UserError
from vaswani_plugin.export.huggingface_export import export_translation_model
from vaswani_plugin.export.huggingface_language_model import export_language_model
from vaswani_plugin.text.settings import TextSettings, TreeSettings, read_settings


def export_to_huggingface(model: Path, output: Path, with_tokenizer: bool = True) -> Path:
    """Write a bundle as a folder that transformers loads with its own code.

    Args:
        model: the bundle of a translation model or a language model.
        output: the folder to make.
        with_tokenizer: False writes the model and its vocabulary only.

    Returns:
        The file that the weights were read from.

    Raises:
        ValueError: `model` is no bundle, Hugging Face has no such architecture or tokenizer, or
            `output` is not empty.
        OSError: a file can't be read or written.
    """
    if not model.is_dir():
        raise UserError(f"{model} is not a bundle: make one with data-prep/bundle.py")
    settings = read_settings(model)
    if isinstance(settings, TreeSettings):
        raise UserError(
            f"{model} holds a parser, and Hugging Face has no search for well-formed trees; "
            "--to safetensors can"
        )
    if isinstance(settings, TextSettings):
        return export_language_model(model, output, with_tokenizer)
    return export_translation_model(model, output, with_tokenizer)
