"""A folder of binarized data: made or replaced in one step, and the languages of its pairs."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vaswani_plugin.text.messages import InputError
from vaswani_plugin.text.settings import CTRANSLATE2_MODEL

MODEL_SUFFIXES = (".pt", ".safetensors", ".onnx")
"""Endings of files with a model, beside CTranslate2's `CTRANSLATE2_MODEL`."""


def languages_of(folder: Path) -> tuple[str, str] | None:
    """Finds source and target language of binarized pairs by the names SPLIT.SOURCE-TARGET.*.idx.

    Returns:
        None if no file is named so, or if the files are of several pairs.
    """
    names = {path.name.split(".")[1] for path in folder.glob("*.*-*.*.idx")}
    if len(names) != 1:
        return None
    source, _, target = names.pop().partition("-")
    return source, target


@contextmanager
def new_data_folder(output: Path, inputs: Iterable[str | Path]) -> Iterator[tuple[Path, Path]]:
    """Makes a folder that takes the place of `output` once it is complete, and not after an error.

    Args:
        output: the folder; it may be missing. A link keeps its target.
        inputs: the files and folders that are read.

    Yields:
        The new folder, and one for intermediate files; both are empty.

    Raises:
        InputError: `output` is a file, or holds something other than binarized data, a model, a
            folder or an input.
        OSError: a folder can't be made or replaced.
    """
    _check_replaceable(output, inputs)
    output = Path(os.path.realpath(output))
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as parent:
        folder, parts = Path(parent, "data-bin"), Path(parent, "parts")
        folder.mkdir()
        parts.mkdir()
        yield folder, parts
        if output.exists():
            shutil.rmtree(output)
        os.replace(folder, output)


def _check_replaceable(output: Path, inputs: Iterable[str | Path]) -> None:
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    if not (output.is_dir() and any(output.glob("dict*.txt"))):
        raise InputError(
            f"--output {output}: it exists and is no folder of binarized data, which alone is "
            "replaced: give a new folder"
        )
    for path in inputs:
        if Path(path).resolve().is_relative_to(output.resolve()):
            raise InputError(f"--output {output}: {path} lies in it: give another folder")
    for path in output.iterdir():
        if path.is_dir() or path.suffix in MODEL_SUFFIXES or path.name == CTRANSLATE2_MODEL:
            raise InputError(
                f"--output {output}: it holds {path.name}, so it is more than binarized data, and "
                "would be deleted: give another --output"
            )
