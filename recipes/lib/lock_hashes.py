"""Adds to each pin in requirements.lock the sha256 of all its files on PyPI.

    python -m pip install uv
    python recipes/lib/lock_hashes.py

Run it after changing a version. The lock has the checksums of all wheels and of the source
distribution, for every system and Python; uv reads them from the index. torch gets no checksums:
its builds for CPU, CUDA and ROCm differ and are on other indexes.
"""

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from vaswani_plugin.text.messages import InputError, run  # noqa: E402
from vaswani_plugin.text.output_files import write_atomically  # noqa: E402

LOCK = Path(__file__).resolve().parents[2] / "requirements.lock"
INDEX = "https://pypi.org/simple"
WITHOUT = ("torch",)
_PIN = re.compile(r"([\w.-]+)==([\w.]+)(?: \\)?")
_HASH = re.compile(r"    --hash=(sha256:[0-9a-f]{64})(?: \\)?")


def normalized(name: str) -> str:
    """Returns a package's name in PyPI's normalized form."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_hashes(lines: list[str]) -> dict[str, list[str]]:
    """Reads pip's format; returns the hashes by `NAME==VERSION`, with normalized names."""
    hashes: dict[str, list[str]] = {}
    found: list[str] = []
    for line in lines:
        if pin := _PIN.fullmatch(line):
            found = hashes.setdefault(f"{normalized(pin[1])}=={pin[2]}", [])
        elif sum_ := _HASH.fullmatch(line):
            found.append(sum_[1])
    return hashes


def with_hashes(lines: list[str], hashes: dict[str, list[str]]) -> list[str]:
    """Returns the lock's lines with the hashes below each pin; comments keep their places.

    Raises:
        InputError: a pin has no hash.
    """
    written = []
    for line in lines:
        pin = _PIN.fullmatch(line)
        if _HASH.fullmatch(line):
            continue
        if not pin:
            written.append(line)
            continue
        sums = [] if pin[1] in WITHOUT else hashes.get(f"{normalized(pin[1])}=={pin[2]}")
        if not sums and pin[1] not in WITHOUT:
            raise InputError(f"{pin[1]}=={pin[2]}: the index has no file of this version")
        entries = [f"{pin[1]}=={pin[2]}", *(f"    --hash={each}" for each in sorted(sums))]
        written += [f"{entry} \\" for entry in entries[:-1]] + entries[-1:]
    return written


def ask_index(lines: list[str]) -> dict[str, list[str]]:
    """Gets the hashes of all pins from the index by uv.

    Raises:
        InputError: uv is missing, or the index doesn't answer.
    """
    pins = "\n".join(f"{pin[1]}=={pin[2]}" for pin in map(_PIN.fullmatch, lines) if pin)
    command = [sys.executable, "-m", "uv", "pip", "compile", "--no-deps", "--universal"]
    command += ["--generate-hashes", "--no-annotate", "--no-header", "--default-index", INDEX]
    done = subprocess.run([*command, "-"], input=pins, capture_output=True, text=True)
    if done.returncode:
        raise InputError(f"uv pip compile failed: {' '.join(done.stderr.split())}")
    return read_hashes(done.stdout.split("\n"))


def main() -> None:
    """Command line."""
    lines = LOCK.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    with write_atomically(LOCK) as write:
        for line in with_hashes(lines, ask_index(lines)):
            write(line)
    print(f"{LOCK}: {len(read_hashes(lines))} packages with the hashes of all their files")


if __name__ == "__main__":
    run(main)
