"""Downloads one file, continues an interrupted download, and checks its sha256.

    fetch.py --url https://host/train.gz --sha256 d79c... --output raw/train.gz
    fetch.py --url https://host/a.tgz --url https://mirror/a.tgz --no-checksum --output raw/a.tgz

Several --url are mirrors, tried in this order; a path or file:// is a local copy. The download goes
to OUTPUT.part, which is renamed when it is complete and its sha256 is right. A file that exists
with the right sha256 is not downloaded again. --no-checksum is for files without a published
sha256: it accepts any file and prints its sha256, for the next time.

A partial download is continued only if --sha256 will check the result, or if the server confirms
(by ETag or Last-Modified) that its file has not changed. Otherwise the download starts again.
"""

import argparse
import hashlib
import http.client
import io
import os
import re
import time
import urllib.error
import urllib.request
from pathlib import Path

import checkout  # noqa: F401
from tqdm import tqdm

from vaswani_plugin.errors import UserError, run
from vaswani_plugin.text.lines import read_json
from vaswani_plugin.text.outputs import NamedFile, write_json

CHUNK_BYTES = 1 << 18
TRIES = 3
TIMEOUT_SECONDS = 30
HOPELESS = {400, 401, 403, 404, 410, 451}  # HTTP status codes that a retry does not change


class Unreachable(Exception):
    """The download failed or is incomplete; `hopeless` means that a retry is useless."""

    def __init__(self, reason: object, hopeless: bool = False) -> None:
        super().__init__(str(reason))
        self.hopeless = hopeless


def sha256_of(path: Path) -> str:
    """Computes the sha256 of a file, in hexadecimal."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class Part:
    """A partial download in OUTPUT.part, and where it came from."""

    def __init__(self, output: Path) -> None:
        self.path = output.with_name(output.name + ".part")
        self._origin = output.with_name(output.name + ".part.json")

    def size(self) -> int:
        """Returns the number of bytes downloaded so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def discard(self) -> None:
        """Deletes the partial download."""
        self.path.unlink(missing_ok=True)
        self._origin.unlink(missing_ok=True)

    def become(self, output: Path) -> None:
        """Renames the complete download to its final name."""
        os.replace(self.path, output)
        self._origin.unlink(missing_ok=True)

    def note_origin(self, url: str, headers: http.client.HTTPMessage) -> None:
        """Stores the server's identifier of this version of the file."""
        tag = headers.get("ETag", "")
        # A weak ETag does not guarantee equal bytes.
        version = tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")
        write_json(self._origin, {"url": url, "version": version}, indent=None)

    def version(self, url: str) -> str | None:
        """Returns the stored version of the file at `url`; None if it is unknown."""
        try:
            origin = read_json(self._origin, "fetch the file anew")
            return origin["version"] if origin["url"] == url else None
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _request(url: str, part: Part, have_sum: bool) -> urllib.request.Request:
    try:
        if "://" not in url:
            url = Path(url).resolve().as_uri()
        request = urllib.request.Request(url)
    except ValueError as error:
        raise Unreachable(error, hopeless=True) from error
    version = part.version(url)
    if not version and not have_sum:
        part.discard()
    if part.size():
        request.add_header("Range", f"bytes={part.size()}-")
        if version:
            request.add_header("If-Range", version)
    return request


def _refused(error: urllib.error.HTTPError, part: Part) -> None:
    """Handles an HTTP error; returns only if the error means that the part is complete."""
    if error.code != 416:
        raise Unreachable(error, hopeless=error.code in HOPELESS) from error
    total = re.search(r"/(\d+)$", error.headers.get("Content-Range", ""))
    if not total or int(total[1]) != part.size():
        part.discard()
        raise Unreachable("the server's file is shorter than what came of it before") from error


def _continues(response: http.client.HTTPResponse, have: int) -> bool:
    if response.status != 206:
        return False
    start = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    if not start or int(start[1]) != have:
        raise Unreachable("the server sent another part of the file than it was asked for")
    return True


def download(url: str, part: Part, have_sum: bool) -> None:
    """Appends the missing bytes of `url` to `part`; starts over if the part can't be continued.

    Args:
        url: of the file.
        part: the download so far.
        have_sum: whether the caller checks the complete file by a checksum.

    Raises:
        Unreachable: no answer, or the connection broke (`part` keeps its bytes).
        OSError: the part can't be written; the error names it.
    """
    request = _request(url, part, have_sum)
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        return _refused(error, part)
    except urllib.error.URLError as error:
        raise Unreachable(error.reason, hopeless=request.type == "file") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unreachable(error) from error
    with response:
        have = part.size() if _continues(response, part.size()) else 0
        if not have:
            part.note_origin(request.full_url, response.headers)
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        raw = NamedFile(part.path, "ab" if have else "wb", str(part.path))
        with io.BufferedWriter(raw) as stream, tqdm(total=total, unit="B", disable=None) as bar:
            bar.update(have)
            while chunk := _read(response):
                stream.write(chunk)
                bar.update(len(chunk))
    # `read` with a size raises no error if the connection ends early.
    if total is not None and part.size() != total:
        raise Unreachable(f"the connection broke with {total - part.size()} bytes left")


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"the connection broke: {error}") from error


def fetch_from(url: str, sha256: str | None, part: Part) -> str:
    """Completes `part` from one address; returns the sha256 of the file.

    Raises:
        Unreachable: the download failed after some tries, or the content has another sum.
    """
    for attempt in range(1, TRIES + 1):
        began_with = part.size()
        try:
            download(url, part, have_sum=sha256 is not None)
        except Unreachable as error:
            if error.hopeless or attempt == TRIES:
                raise
            time.sleep(attempt)
            continue
        found = sha256_of(part.path)
        if sha256 in (None, found):
            return found
        part.discard()
        # The part of an earlier run may be of another version: download again from the start.
        if not began_with:
            break
    raise Unreachable(
        f"sha256 is {found}, expected {sha256}: the file was damaged or changed", hopeless=True
    )


def fetch(urls: list[str], sha256: str | None, output: Path) -> tuple[bool, str]:
    """Downloads a file to `output` from the first of `urls` that has it.

    Args:
        urls: addresses or paths, in the order in which they are tried.
        sha256: the expected sum, or None to accept any content.
        output: the file to write.

    Returns:
        Whether the file was downloaded (False if it existed already), and its sum.

    Raises:
        UserError: no address has the file; gives the reason for each.
        OSError: the file can't be written.
    """
    if output.exists():
        found = sha256_of(output)
        if sha256 in (None, found):
            return False, found
    output.parent.mkdir(parents=True, exist_ok=True)
    part = Part(output)
    failures = []
    for url in urls:
        try:
            found = fetch_from(url, sha256, part)
        except Unreachable as error:
            failures.append(f"{url}: {error}")
            continue
        part.become(output)
        return True, found
    raise UserError(
        f"{'; '.join(failures)}: check the network and start again, or fetch the file by other "
        "means and name its folder with the recipe's --data"
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--url", action="append", required=True, help="address; may be repeated for mirrors"
    )
    checksum = parser.add_mutually_exclusive_group(required=True)
    checksum.add_argument("--sha256", type=str.lower, help="expected sha256, hexadecimal")
    checksum.add_argument("--no-checksum", action="store_true", help="accept any file")
    parser.add_argument("--output", type=Path, required=True, help="the file to write")
    args = parser.parse_args()
    if args.sha256 is not None and not re.fullmatch("[0-9a-f]{64}", args.sha256):
        raise UserError(f"--sha256 {args.sha256}: must be 64 hexadecimal digits")
    new, found = fetch(args.url, args.sha256, args.output)
    # The sum is the last word: recipes read it by `awk '{print $NF}'`.
    print(f"{args.output}: {'fetched' if new else 'already there'}, sha256 {found}")


if __name__ == "__main__":
    run(main)
