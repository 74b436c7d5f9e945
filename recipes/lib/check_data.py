"""Prints the data files of a finished recipe that differ from those in its result.json.

    check_data.py work/multi30k/result.json

Compares sizes, and checksums if the sizes agree. Checks only files inside the work folder, since
the result keeps no path of others. Exit code 1: a file is missing or has changed.
"""

import argparse
from pathlib import Path
from typing import Any

from result import describe_file  # first: it adds the plugin to the path

from vaswani_plugin.errors import UserError, run
from vaswani_plugin.text.lines import read_json


def difference(path: Path, entry: dict[str, Any]) -> str | None:
    """Describes how a file differs from its entry; None if it doesn't."""
    if not path.is_file():
        return "is missing"
    size = path.stat().st_size
    if size != entry.get("bytes", size):  # older results have no sizes
        return f"has {size} bytes instead of {entry['bytes']}"
    found = describe_file(path, path.parent)
    return None if found["sha256"] == entry["sha256"] else "holds something else"


def main() -> None:
    """Command line.

    Raises:
        UserError: a file differs, or there is nothing to compare.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("result", type=Path)
    path = parser.parse_args().result
    try:
        result = read_json(path, "run the recipe's last stage again")
        entries = [*result["data"], *result.get("binarized", [])]
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: no result of a recipe ({error!r})") from error
    inside = [entry for entry in entries if "/" in entry["file"]]
    found = ((entry["file"], difference(path.parent / entry["file"], entry)) for entry in inside)
    changed = [f"{name} {how}" for name, how in found if how]
    if changed:
        raise UserError(f"{path}: not the data of this result: {'; '.join(changed)}")
    print(f"{len(inside)} files as they were")


if __name__ == "__main__":
    run(main)
