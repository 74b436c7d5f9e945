"""Files that would run code, reach out of their folder or fill the machine, were they believed."""

import gzip
import io
import os
import pickle
import random
import tarfile
import zipfile
from functools import cache
from typing import Any

CANARY = "canary"
"""A file that only comes to be when a payload's code ran; beside the work folder."""
SECRET = "secret.txt"
"""A file beside the work folder which nothing may open."""
BOMB_BYTES = 200 << 20
_TOUCH = f"touch ../{CANARY}"


def injected_words() -> list[bytes]:
    """Words for a shell, a template or a path to obey."""
    words = [f"$({_TOUCH})", f"`{_TOUCH}`", f";{_TOUCH};", f"|{_TOUCH}", f"'; {_TOUCH} #"]
    words += [f"../{SECRET}", f"{os.getcwd()}/../{SECRET}", f"../{CANARY}", "~/.bashrc", "-", "--"]
    words += ["/dev/zero", "/dev/stdin", "file:///etc/passwd", "http://127.0.0.1:9/x", "${data}"]
    words += [f"__import__('os').system('{_TOUCH}')", "!!python/object/apply:os.system"]
    words += ["${oc.env:HOME}", "{0.__class__}", "%(data)s"]
    return [word.encode() for word in words]


class Calls:
    """Unpickled without care, calls `function` with `arguments`."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, tuple]:
        return self.call


def _evil_objects() -> list[Any]:
    return [
        Calls(os.system, _TOUCH),
        Calls(exec, f"open('../{CANARY}', 'w')"),
        Calls(eval, f"__import__('os').system('{_TOUCH}')"),
        Calls(open, f"../{CANARY}", "w"),
        Calls(getattr, Calls(__import__, "os"), "system"),
        Calls(io.FileIO, f"../{SECRET}"),
    ]


def _laughs() -> tuple:
    """A tuple of 2^40 leaves in 40 objects."""
    value: tuple = ()
    for _ in range(40):
        value = value, value
    return value


def hostile_pickle(rng: random.Random, content: bytes) -> bytes:
    """A checkpoint in PyTorch's formats, or a bare pickle, with an object that would run code."""
    evil = rng.choice([*_evil_objects(), _laughs()])
    inside = rng.choice([evil, {"model": evil}, {"model": {}, "extra_state": evil}])
    data = pickle.dumps(inside, protocol=rng.choice([0, 2, 4]))
    if rng.random() < 0.3:
        return data
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            new.writestr(name, data if name.endswith("/data.pkl") else old.read(name))
    return changed.getvalue()


_MEMBERS = ("../" + CANARY, "/tmp/" + CANARY, "text.en", "./text.en", "a/../../" + CANARY, "")


def _tar(rng: random.Random) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
        for name in rng.sample(_MEMBERS, 4):
            entry = tarfile.TarInfo(name)
            entry.type = rng.choice(
                [tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE]
                + [tarfile.FIFOTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE]
            )
            entry.linkname = rng.choice([f"../{SECRET}", f"/{SECRET}", "text.en"])
            data = b"a line\n" * 5
            entry.size = rng.choice([len(data), 0, 10**12]) if entry.isreg() else 0
            tar.addfile(entry)
            if entry.isreg():
                tar.fileobj.write(data.ljust(tarfile.BLOCKSIZE, b"\0"))
    return packed.getvalue()


def _zip(rng: random.Random) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in rng.sample(_MEMBERS[:-1], 3):
            entry = zipfile.ZipInfo(name)
            if rng.random() < 0.4:
                entry.external_attr = 0o120777 << 16  # a link
            archive.writestr(entry, rng.choice([f"../{SECRET}", "a line\n"]))
    return packed.getvalue()


@cache
def bombs() -> dict[str, bytes]:
    """Some hundred kilobytes each that become `BOMB_BYTES` of zeros, by the kind of archive."""
    chunk = bytes(1 << 20)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("text.en", "w") as stream:
            for _ in range(BOMB_BYTES >> 20):
                stream.write(chunk)
    entry = tarfile.TarInfo("text.en")
    entry.size = BOMB_BYTES
    # gzip's members may follow one another.
    zeros = gzip.compress(chunk) * (BOMB_BYTES >> 20)
    return {"zip": packed.getvalue(), "gz": zeros, "tar": gzip.compress(entry.tobuf()) + zeros}


def hostile_archive(rng: random.Random, content: bytes) -> bytes:
    """An archive of the kind of `content` with names and links that lead out of it, or a bomb."""
    is_zip = content.startswith(b"PK")
    if rng.random() < 0.1:
        return bombs()["zip" if is_zip else rng.choice(["tar", "gz"])]
    return _zip(rng) if is_zip else _tar(rng)
