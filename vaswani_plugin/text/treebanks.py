"""Treebanks on disk: files, folders of files, and the sections of the Wall Street Journal."""

from collections.abc import Callable, Iterator
from pathlib import Path

from vaswani_plugin.text.messages import InputError
from vaswani_plugin.text.trees import Tree, read_trees

SUFFIXES = (".mrg", ".ptb", ".tree", ".trees", ".clean")
# The standard splits for results on the Penn Treebank (Collins 1997).
WSJ_SECTIONS = {"train": range(2, 22), "valid": range(22, 23), "test": range(23, 24)}
# Where the sections can be below the given folder: as the LDC ships it (LDC99T42), or a subfolder.
_WSJ_PLACES = ("parsed/mrg/wsj", "mrg/wsj", "wsj", ".")


def tree_files(paths: list[str]) -> list[Path]:
    """Lists the files that arguments name; a folder means all treebank files below it, sorted.

    Raises:
        InputError: a folder has no such files.
    """
    found = []
    for path in map(Path, paths):
        if not path.is_dir():
            found.append(path)
            continue
        names = sorted(p for p in path.rglob("*") if p.name.removesuffix(".gz").endswith(SUFFIXES))
        below = [p for p in names if p.is_file()]
        if not below:
            raise InputError(f"{path}: no treebank files below it ({', '.join(SUFFIXES)} or .gz)")
        found += below
    return found


def wsj_files(folder: str | Path, split: str) -> list[Path]:
    """Lists the files of a split's sections, in order.

    Args:
        folder: of the Penn Treebank, or one between it and the sections (02, 03, ...).
        split: a key of `WSJ_SECTIONS`.

    Raises:
        InputError: a section is missing, or has no .mrg files.
    """
    places = [Path(folder) / place for place in _WSJ_PLACES]
    wsj = next((place for place in places if (place / "23").is_dir()), None)
    if wsj is None:
        raise InputError(
            f"{folder}: no sections 02 to 23 in it or in {_WSJ_PLACES[0]} below it; give the "
            "folder of the Penn Treebank (LDC99T42)"
        )
    files = []
    for section in WSJ_SECTIONS[split]:
        place = wsj / f"{section:02}"
        found = sorted([*place.glob("*.mrg"), *place.glob("*.mrg.gz")])
        if not found:
            raise InputError(f"{place}: no .mrg files of section {section:02} of the {split} set")
        files += found
    return files


def read_all(files: list[Path], on_bad: Callable[[str], None] | None = None) -> Iterator[Tree]:
    """Yields the trees of all files; `on_bad` and errors are those of `read_trees`."""
    for path in files:
        yield from read_trees(path, on_bad)
