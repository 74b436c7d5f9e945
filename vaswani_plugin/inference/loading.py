"""How a model gets into another process."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self


class LoadedFromFiles:
    """A model that is pickled as the call that loaded it: the other process reads the files again.

    So `multiprocessing` may take it as an argument, where each process then has its own copy.
    """

    _load: Callable[[], Any] | None = None

    def loaded_by(
        self, load: Callable[..., Any], *paths: str | Path | None, **options: Any
    ) -> Self:
        """Remember the call; relative paths become absolute."""
        absolute = (None if path is None else Path(path).absolute() for path in paths)
        self._load = partial(load, *absolute, **options)
        return self

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        if self._load is None:
            raise TypeError(
                f"this {type(self).__name__} was made of parts that can't be pickled: give the "
                "other process the path of its folder, and call from_pretrained there"
            )
        return self._load, ()
