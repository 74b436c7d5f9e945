"""A bundle without a pickled file: model.safetensors and config.json in place of model.pt."""

import shutil
from pathlib import Path

from vaswani_plugin.export.exported_model import other_bundle_files
from vaswani_plugin.export.new_folder import new_folder
from vaswani_plugin.inference.checkpoints import load_checkpoint
from vaswani_plugin.inference.safetensors_file import save_safetensors
from vaswani_plugin.text.settings import SAFETENSORS, read_settings, weights_path


def export_to_safetensors(model: Path, output: Path) -> Path:
    """Copy a bundle of any kind of model, with its weights as safetensors.

    Args:
        model: the bundle.
        output: the folder to make.

    Returns:
        The file that the weights were read from.

    Raises:
        ValueError: `model` is not a bundle or can't be used, or `output` is not empty.
        OSError: a file can't be read or written.
    """
    if not model.is_dir():
        raise ValueError(f"{model} is not a bundle: make one with data-prep/bundle.py")
    settings, path = read_settings(model), weights_path(model)
    state = load_checkpoint(path)
    with new_folder(output) as folder:
        for file in other_bundle_files(model, settings):
            shutil.copyfile(file, folder / file.name)
        save_safetensors(state, folder / SAFETENSORS)
    return path
