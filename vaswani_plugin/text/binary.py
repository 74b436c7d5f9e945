"""A corpus of subwords in fairseq's binary form, byte for byte what `fairseq-preprocess` writes.

`fairseq-preprocess` takes about 13 times the CPU time for the same files.
`SPLIT.SOURCE-TARGET.LANG.bin` holds the numbers of all lines one after the other; each line ends in
</s>. A number has 16 bits if the dictionary has fewer than 65,500 rows, else 32. The `.idx` file
(fairseq's "mmap" format) holds, little-endian:

    9 bytes   "MMIDIDX\\0\\0"
    8 bytes   version, 1
    1 byte    type of number: 8 for unsigned 16 bits, 9 for unsigned 32 bits
    8 bytes   number of lines N
    4 N       tokens of each line, with its </s>
    8 N       offset of each line in the .bin file, in bytes

One thing differs on purpose: here a line ends at "\\n" alone, and a lone "\\r" is an error. fairseq
ends the line there, which shifts one side of a corpus against the other.
"""

import struct
import sys
from array import array
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count, repeat
from pathlib import Path

import numpy as np

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.outputs import write_atomically, write_bytes_atomically
from vaswani_plugin.files.parallel import Block, map_blocks, word_counts
from vaswani_plugin.text.dictionary import EOS, OVERWRITE, SPECIAL_SYMBOLS, UNK, Entries

_HEADER = struct.Struct("<9sQBQ")
_MAGIC = b"MMIDIDX\0\0"
# fairseq's codes of integer types, and NumPy's names of these types.
_ITEM_TYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2", 9: "<u4", 10: "<u8"}


def read_numbers(prefix: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """Reads a binary text; `prefix` is its path without `.bin` or `.idx`.

    Returns the numbers of all lines, one line after the other, (tokens,) of the file's own integer
    type; and the number of tokens of each line, (lines,), int64. </s> counts.
    """
    content = Path(f"{prefix}.idx").read_bytes()
    magic, version, code, lines = _HEADER.unpack(content[: _HEADER.size].ljust(_HEADER.size, b"\0"))
    if (magic, version) == (_MAGIC, 1) and len(content) == _HEADER.size + 12 * lines:
        sizes = np.frombuffer(content, "<i4", lines, _HEADER.size).astype(np.int64)
        numbers = np.fromfile(f"{prefix}.bin", _ITEM_TYPES[code])
        if sizes.sum() == len(numbers):
            return numbers, sizes
    raise UserError(f"{prefix}.idx: isn't the index of {prefix}.bin: binarize the text again")


def _type_code(rows: int) -> str:
    """The integer type for a dictionary, as a code of `array` and NumPy."""
    return "H" if rows < 65500 else "I"


def make_numberer(symbols: list[str]) -> Callable[[Block], tuple[bytes, bytes]]:
    """Returns a function from a block to its part of the .bin file and its lines' sizes (int32)."""
    numbers = {symbol: n for n, symbol in enumerate((*SPECIAL_SYMBOLS, *symbols))}
    code = _type_code(len(numbers))

    def convert(block: Block) -> tuple[bytes, bytes]:
        tokens, sizes = array(code), array("i")
        for line in block.lines():
            words = line.split()
            tokens.extend(map(numbers.get, words, repeat(UNK)))
            tokens.append(EOS)
            sizes.append(len(words) + 1)
        return tokens.tobytes(), sizes.tobytes()

    return convert


def build_dictionary(
    paths: Iterable[str],
    threshold: int,
    padding_factor: int,
    workers: int,
    also: Iterable[str] = (),
    most_rows: int | None = None,
) -> Entries:
    """Counts the symbols of all files, plain or `.gz`, by `workers` processes.

    The most frequent ones get the rows: at most `most_rows`, the four special ones included, and
    none rarer than `threshold`; the symbols `also` get one in any case. `madeupword0000` and so on
    fill the rows up to a multiple of `padding_factor`.
    """
    counts = word_counts(paths, workers)
    for symbol in SPECIAL_SYMBOLS:
        del counts[symbol]
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if most_rows is not None:
        ordered = ordered[: most_rows - len(SPECIAL_SYMBOLS)]
    entries = {symbol: count for symbol, count in ordered if count >= threshold}
    for symbol in also:
        entries.setdefault(symbol, counts[symbol])
    fillers = (f"madeupword{number:04d}" for number in count())
    while (len(SPECIAL_SYMBOLS) + len(entries)) % padding_factor:
        entries.setdefault(next(fillers), 0)
    return list(entries.items())


def binarize(source: str, prefix: Path, entries: Entries, workers: int) -> tuple[int, int, int]:
    """Writes PREFIX.bin and .idx; returns the numbers of lines, of tokens with </s>, of <unk>."""
    symbols = [symbol for symbol, _ in entries]
    assert sys.byteorder == "little", "fairseq's format is little-endian"
    code = _type_code(len(SPECIAL_SYMBOLS) + len(symbols))
    sizes: list[bytes] = []
    unknown = 0
    with write_bytes_atomically(f"{prefix}.bin") as data:
        for tokens, lengths in map_blocks(partial(make_numberer, symbols), source, workers):
            data.write(tokens)
            unknown += int(np.count_nonzero(np.frombuffer(tokens, code) == UNK))
            sizes.append(lengths)
    counts = np.frombuffer(b"".join(sizes), dtype=np.int32)
    in_bytes = counts.astype(np.int64) * array(code).itemsize
    offsets = np.cumsum(in_bytes) - in_bytes
    with write_bytes_atomically(f"{prefix}.idx") as index:
        index.write(_HEADER.pack(_MAGIC, 1, {"H": 8, "I": 9}[code], len(counts)))
        index.write(counts.tobytes() + offsets.tobytes())
    return len(counts), int(counts.sum()), unknown


def write_dictionary(entries: Iterable[tuple[str, int]], path: Path) -> None:
    """Writes `dict.LANG.txt`; a symbol's second row is marked, which fairseq's readers ask for."""
    seen = set(SPECIAL_SYMBOLS)
    with write_atomically(path) as write:
        for symbol, count in entries:
            write(f"{symbol} {count}{f' {OVERWRITE}' if symbol in seen else ''}")
            seen.add(symbol)
