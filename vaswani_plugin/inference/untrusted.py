"""Files that somebody else wrote: whatever goes wrong while one becomes a model, the file is named.

A checkpoint that loads holds plain data, but any: options of another type, tensors of any shape, a
section that is missing. What such data lead to inside fairseq and PyTorch can't be listed, so that
all of it counts as the file's fault here, and only here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vaswani_plugin.text.messages import wants_traceback


@contextmanager
def untrusted(path: Path) -> Iterator[None]:
    """Within, `path` is made into something; any error becomes a ValueError that names it.

    With VASWANI_TRACEBACK=1 errors are left as they are, for whoever looks for a defect.

    Raises:
        ValueError: what was raised within and is no OSError; with the file's name.
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
