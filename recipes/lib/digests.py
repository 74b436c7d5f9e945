"""Prints `NAME SHA256` for each file; by it a recipe notices that an input has changed.

    digests.py --cache work/wmt14_en_de/.stages/digests.json train.en.gz train.de.gz

A checksum is computed again only if the file's size, times or inode differ from the cache, since
the archives of WMT have gigabytes. A missing file is printed as missing.
"""

import argparse
import hashlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from vaswani_plugin.errors import UserError, run  # noqa: E402
from vaswani_plugin.text.lines import read_json  # noqa: E402
from vaswani_plugin.text.outputs import write_json  # noqa: E402


def read_cache(path: Path) -> dict[str, list]:
    """Reads the cache, file: [state, sum]; empty if the cache is missing or broken."""
    try:
        cache = read_json(path, "delete it")
    except (OSError, UserError):
        return {}
    return cache if isinstance(cache, dict) and all(map(_is_entry, cache.values())) else {}


def _is_entry(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[1], str)


def digest(path: Path, cache: dict[str, list]) -> str:
    """Returns the sha256 of a file, from the cache if the file is unchanged; updates the cache."""
    if not path.is_file():
        return "missing"
    status = path.stat()
    state = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
    known = cache.get(str(path))
    if known and known[0] == state:
        return known[1]
    with open(path, "rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    cache[str(path)] = [state, found]
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("files", type=Path, nargs="+")
    args = parser.parse_args()
    cache = read_cache(args.cache)
    before = dict(cache)
    for path in args.files:
        print(path.name, digest(path.resolve(), cache))
    if cache != before:
        write_json(args.cache, cache)


if __name__ == "__main__":
    run(main)
