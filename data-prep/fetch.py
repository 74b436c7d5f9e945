"""Downloads one file, continuing where an earlier try broke off, and checks its sha256.

    fetch.py --url https://host/train.en.gz --sha256 d79c... --output raw/train.en.gz

The download goes to OUTPUT.part and gets its name only when the sum is right. A file that is
already there with the right sum is not fetched again. Needs nothing but Python.
"""

import argparse
import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from pathlib import Path

from vaswani_text.corpus_io import InputError, run

CHUNK_BYTES = 1 << 16
TRIES = 3


def sha256_of(path: Path) -> str:
    """Hexadecimal sum of a file."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def download(url: str, part: Path, timeout_seconds: float) -> None:
    """Appends to `part` what is missing of `url`; starts over where the server can't continue.

    Raises:
        OSError: the server can't be reached or the connection broke (`part` keeps what came).
    """
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url)
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response = urllib.request.urlopen(request, timeout=timeout_seconds)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing is left to send: complete, as the sum will tell
            return
        raise
    with response, open(part, "ab" if response.status == 206 else "wb") as stream:
        try:
            while chunk := response.read(CHUNK_BYTES):
                stream.write(chunk)
        except http.client.HTTPException as error:
            raise OSError(f"the connection broke: {error}") from error
        # `read` with a size ends quietly where the connection does.
        if response.length:
            raise OSError(f"the connection broke with {response.length} bytes left")


def fetch(url: str, sha256: str, output: Path, timeout_seconds: float = 30) -> bool:
    """Makes `output` the file at `url`; returns False where it was there already.

    Raises:
        InputError: not reachable after some tries, or the content has another sum.
    """
    if output.exists() and sha256_of(output) == sha256:
        return False
    output.parent.mkdir(parents=True, exist_ok=True)
    part = output.with_name(output.name + ".part")
    for attempt in range(1, TRIES + 1):
        try:
            download(url, part, timeout_seconds)
            break
        except OSError as error:
            if attempt == TRIES:
                raise InputError(
                    f"{url}: {error}: check the network, or fetch the data by other means and "
                    "name its folder with --data"
                ) from error
            time.sleep(attempt)
    found = sha256_of(part)
    if found != sha256:
        part.unlink()
        raise InputError(
            f"{url}: sha256 is {found}, expected {sha256}: the file was damaged or changed; start "
            "again, or name a local copy with --data"
        )
    os.replace(part, output)
    return True


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", required=True)
    parser.add_argument("--sha256", required=True, help="expected sum, hexadecimal")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    new = fetch(args.url, args.sha256.lower(), args.output)
    print(f"{args.output}: {'fetched' if new else 'already there'}")


if __name__ == "__main__":
    run(main)
