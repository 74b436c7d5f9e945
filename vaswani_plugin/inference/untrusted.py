"""Errors while a model is built from an untrusted file: they name the file.

A checkpoint that loads holds plain data, but these may be anything: options of another type,
tensors of any shape, missing sections. The errors that such data cause in fairseq and PyTorch can't
be listed. So every error here, and only here, counts as an error of the file.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vaswani_plugin.errors import wants_traceback


@contextmanager
def untrusted(path: Path) -> Iterator[None]:
    """Within the context, any error becomes a ValueError that names the file.

    With VASWANI_TRACEBACK=1 errors stay as they are, for debugging.

    Args:
        path: the file.

    Raises:
        ValueError: for any error within, except OSError and MemoryError, which stay as they are.
    """
    try:
        yield
    except (OSError, MemoryError):
        raise
    except Exception as error:
        is_named = isinstance(error, ValueError) and str(path) in str(error)
        if is_named or wants_traceback():
            raise
        text = " ".join(str(error).split())
        if not isinstance(error, ValueError):
            text = f"can't be used ({type(error).__name__}: {text}): damaged, or of another program"
        raise ValueError(f"{path}: {text}") from error
