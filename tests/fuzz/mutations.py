"""Broken and hostile variants of a valid file, each decided by a random generator alone.

`mutate` works on bytes and on what lies below them: it unpacks what is compressed, changes the
tree of what is JSON or a checkpoint, and packs the result again, so that a change gets past the
first check sum to the code behind it.
"""

import gzip
import io
import json
import random
import re
import zipfile
from collections.abc import Callable
from typing import Any

import torch

from tests.fuzz.payloads import SECRET, hostile_archive, hostile_pickle, injected_words

HUGE = (0, -1, 1, 2**31, 2**63, 2**64, 10**30, 10**400, 1e308, float("nan"), float("inf"))
ODD = [b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\r", b"\x1a", b"\x1b]0;title\x07", b"\x85"]
ODD += [
    text.encode()
    for text in "\u2028 \u2029 \x85 \ufeff \u200b \u3000 \U0001f600 e\u0301".split(" ")
]
ODD += [
    b"\n",
    b"\n\n",
    b" ",
    b"  ",
    b"\t",
    b"|||",
    b"@@",
    "\u2423d800;".encode(),
    b"</s>",
    b"<unk>",
]
ODD += ["\u2423110000;".encode(), b"<s>", b"&#1114112;", b"&#xD800;", b"%s%n", b"{0}", b"{{DATA}}"]
DEEP = 20_000
LONGEST = 1 << 18

Change = Callable[[random.Random, bytes], bytes]


def _place(rng: random.Random, content: bytes) -> int:
    """Somewhere in it; half of the time where most headers are."""
    return rng.randrange(min(len(content), 64) + 1 if rng.random() < 0.5 else len(content) + 1)


def _span(rng: random.Random, content: bytes) -> tuple[int, int]:
    start = _place(rng, content)
    return start, min(len(content), start + rng.choice([1, 2, 8, 64, 1024]))


def flip_bits(rng: random.Random, content: bytes) -> bytes:
    """Some bits are the other way round."""
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8, 64]) if changed else 0):
        changed[min(_place(rng, content), len(changed) - 1)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(rng: random.Random, content: bytes) -> bytes:
    """The end is missing, or the beginning."""
    place = _place(rng, content)
    return content[:place] if rng.random() < 0.8 else content[place:]


def splice(rng: random.Random, content: bytes) -> bytes:
    """A piece stands elsewhere too, in place of another one."""
    (start, end), (to, until) = _span(rng, content), _span(rng, content)
    return content[:to] + content[start:end] + content[until if rng.random() < 0.5 else to :]


def repeat(rng: random.Random, content: bytes) -> bytes:
    """A piece comes many times."""
    start, end = _span(rng, content)
    times = rng.choice([2, 10, 1000])
    return content[:start] + content[start:end] * times + content[start:]


def insert_odd(rng: random.Random, content: bytes) -> bytes:
    """Bytes that end lines or strings elsewhere, are no UTF-8, or mean something to a reader."""
    for _ in range(rng.choice([1, 1, 3])):
        place = _place(rng, content)
        content = content[:place] + rng.choice(ODD) + content[place:]
    return content


def inject(rng: random.Random, content: bytes) -> bytes:
    """A word is one that a shell or a path would obey."""
    words = list(re.finditer(rb"[\w./-]+", content))
    evil = rng.choice(injected_words())
    if not words:
        return evil
    word = rng.choice(words)
    return content[: word.start()] + evil + content[word.end() :]


def change_number(rng: random.Random, content: bytes) -> bytes:
    """A number is another one."""
    numbers = list(re.finditer(rb"-?\d[\d.]*", content))
    if not numbers:
        return flip_bits(rng, content)
    number = rng.choice(numbers)
    text = str(rng.choice(HUGE)) if rng.random() < 0.9 else "9" * 5000
    return content[: number.start()] + text.encode() + content[number.end() :]


def change_lines(rng: random.Random, content: bytes) -> bytes:
    """Lines are gone, twice there, elsewhere or empty."""
    lines = content.split(b"\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(4)
    if kind == 0:
        del lines[one]
    elif kind == 1:
        lines.insert(one, lines[other])
    elif kind == 2:
        lines[one], lines[other] = lines[other], lines[one]
    else:
        lines[one] = rng.choice([b"", b" ", b"\r"])
    return b"\n".join(lines)


def nest(rng: random.Random, content: bytes) -> bytes:
    """Brackets in brackets, closed or not."""
    opening, closing = rng.choice([(b"[", b"]"), (b'{"a":', b"}"), (b"(", b")"), (b"(S ", b")")])
    deep = opening * DEEP + b"(NN a)" + closing * rng.choice([0, DEEP])
    place = _place(rng, content)
    return rng.choice([deep, content[:place] + deep + content[place:]])


def grow_line(rng: random.Random, content: bytes) -> bytes:
    """A line or a word without an end."""
    place = _place(rng, content)
    piece = rng.choice([b"a", b"a ", b"\xe2\x80\xa8", b"a-", b".", b"&", b"<", b"'"])
    return content[:place] + piece * rng.choice([5000, 50_000]) + content[place:]


def empty(rng: random.Random, content: bytes) -> bytes:
    """Nothing, or next to nothing."""
    return rng.choice([b"", b"\n", b" ", b"\0", b"\xef\xbb\xbf", b"null", b"[]", b"{}", b"0"])


CHANGES: tuple[Change, ...] = (
    *(flip_bits, truncate, splice, repeat, insert_odd, insert_odd, inject, change_number),
    *(change_number, change_lines, nest, grow_line, empty),
)


def change_bytes(rng: random.Random, content: bytes) -> bytes:
    """One change, sometimes several."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        content = rng.choice(CHANGES)(rng, content)
    return content[:LONGEST]


def _leaf(rng: random.Random, old: Any) -> Any:
    """Something else than was there."""
    strings = ["", "\0", "a\u2028b", "\ud800", "../" + SECRET, "x" * 5000, "<s>", "moses", "1"]
    other = [None, True, [], {}, [[]], {"": None}, *HUGE, *strings]
    if isinstance(old, torch.Tensor):
        return rng.choice([_tensor(rng, old), _tensor(rng, old), rng.choice(other)])
    return rng.choice(other)


def _tensor(rng: random.Random, old: torch.Tensor) -> torch.Tensor:
    """A tensor of another shape, type or value."""
    flat = old.reshape(-1)
    return rng.choice(
        [
            lambda: flat[: rng.randrange(len(flat) + 1)].clone(),
            lambda: old[None].clone(),
            lambda: torch.full_like(old, rng.choice([0, 1])) * rng.choice(HUGE[-3:]),
            lambda: old.to(rng.choice([torch.float16, torch.int64, torch.bool, torch.complex64])),
            lambda: torch.zeros(()).expand(rng.choice([2**20, 2**40])),
            lambda: old.to_sparse() if old.dim() else old,
            lambda: torch.nn.Parameter(torch.empty(0)),
        ]
    )()


def change_tree(rng: random.Random, tree: Any) -> Any:
    """A copy in which one place of nested dictionaries and lists is another one, or gone."""
    if not isinstance(tree, (dict, list)) or not tree or rng.random() < 0.1:
        return _leaf(rng, tree)
    copy = tree.copy()
    key = rng.choice(list(tree)) if isinstance(tree, dict) else rng.randrange(len(tree))
    if rng.random() < 0.15:
        del copy[key]
    elif isinstance(tree, dict) and rng.random() < 0.1:
        copy[rng.choice([f"{key}x", "", 1, None, ("a",)])] = copy.pop(key)
    else:
        copy[key] = change_tree(rng, tree[key])
    return copy


def _change_json(rng: random.Random, content: bytes) -> bytes:
    tree = change_tree(rng, json.loads(content))
    text = json.dumps(tree, skipkeys=True, ensure_ascii=rng.random() < 0.5)
    return text.encode("utf-8", errors="surrogatepass")


def _change_json_line(rng: random.Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    place = rng.randrange(len(lines) - 1)
    lines[place] = _change_json(rng, lines[place])
    return b"\n".join(lines)


def _change_checkpoint(rng: random.Random, content: bytes) -> bytes:
    state = torch.load(io.BytesIO(content), weights_only=True)
    for _ in range(rng.choice([1, 1, 2])):
        state = change_tree(rng, state)
    changed = io.BytesIO()
    torch.save(state, changed)
    return changed.getvalue()


def _change_zip(rng: random.Random, content: bytes) -> bytes:
    """One member's content, under an unchanged name and a right check sum."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(changed, "w") as new:
        names = old.namelist()
        # Of a checkpoint's members all but one are numbers.
        pickled = [name for name in names if name.endswith("data.pkl")]
        chosen = rng.choice(pickled if pickled and rng.random() < 0.7 else names)
        for name in names:
            data = old.read(name)
            new.writestr(name, change_bytes(rng, data) if name == chosen else data)
    return changed.getvalue()


def _change_gzip(rng: random.Random, content: bytes) -> bytes:
    return gzip.compress(change_bytes(rng, gzip.decompress(content)), 1)


BELOW: dict[str, tuple[Change, ...]] = {
    ".pt": (_change_checkpoint, _change_checkpoint, _change_zip, hostile_pickle),
    ".json": (_change_json, _change_json),
    ".jsonl": (_change_json_line,),
    ".gz": (_change_gzip, _change_gzip, hostile_archive),
    ".tgz": (_change_gzip, hostile_archive),
    ".zip": (_change_zip, hostile_archive),
}


def mutate(rng: random.Random, name: str, content: bytes, others: list[bytes]) -> bytes:
    """A variant of a file.

    Args:
        rng: decides on everything.
        name: the file's, whose ending tells what lies below the bytes.
        content: of the valid file.
        others: contents of other valid files, of any kind.
    """
    if rng.random() < 0.03:
        return rng.choice(others)
    ending = name[name.rindex(".") :] if "." in name else ""
    below = BELOW.get(ending, ())
    if below and rng.random() < 0.6:
        return rng.choice(below)(rng, content)
    return change_bytes(rng, content)
