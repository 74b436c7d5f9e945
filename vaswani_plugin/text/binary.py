"""A corpus of subwords in fairseq's binary form, byte for byte what `fairseq-preprocess` writes.

Dictionary, `dict.LANG.txt`: a line `symbol count` for each symbol, the most frequent first. Symbols
of equal count are sorted by code point. The numbers 0 to 3 belong to <s>, <pad>, </s> and <unk>,
which are not in the file; the symbol of line 1 has number 4.

Text, `SPLIT.SOURCE-TARGET.LANG.{bin,idx}`, is in fairseq's "mmap" format. The `.bin` file holds the
numbers of all lines one after the other; each line ends in </s>. A number has 16 bits if the
dictionary has fewer than 65,500 rows, else 32. The `.idx` file holds, little-endian:

    9 bytes   "MMIDIDX\\0\\0"
    8 bytes   version, 1
    1 byte    type of number: 8 for unsigned 16 bits, 9 for unsigned 32 bits
    8 bytes   number of lines N
    4 N       tokens of each line, with its </s>
    8 N       offset of each line in the .bin file, in bytes

One thing differs on purpose: here a line ends at "\\n" alone. fairseq also ends it at a lone "\\r",
which shifts one side of a corpus against the other.
"""

import io
import struct
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from vaswani_plugin.text.corpus_io import MOST_DIGITS, read_lines
from vaswani_plugin.text.messages import InputError
from vaswani_plugin.text.output_files import NamedFile, write_atomically, write_bytes_atomically
from vaswani_plugin.text.parallel import Block, map_blocks

SPECIAL_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")
EOS, UNKNOWN = 2, 3
_HEADER = struct.Struct("<9sQBQ")
_MAGIC = b"MMIDIDX\0\0"
# fairseq's codes of integer types, and NumPy's names of these types.
_ITEM_TYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2", 9: "<u4", 10: "<u8"}
_COUNTED_BYTES = 1 << 21
_SIZES_AT_A_TIME = 1 << 20


def _count_symbols(block: Block) -> Counter[str]:
    return Counter(block.text().split())


def _symbol_counter() -> Callable[[Block], Counter[str]]:
    return _count_symbols


def build_dictionary(
    paths: Iterable[str],
    threshold: int,
    padding_factor: int,
    workers: int,
    also: Iterable[str] = (),
    most_rows: int | None = None,
) -> list[tuple[str, int]]:
    """Counts the symbols of all files.

    Args:
        paths: the files, plain or `.gz`.
        threshold: rarer symbols are left out and become <unk>.
        padding_factor: `madeupword0000` and so on are added, with count 0, until the number of
            rows, the four special ones included, is a multiple of this.
        workers: number of processes.
        also: symbols that get a row, whether the files have them or not.
        most_rows: the most frequent symbols are kept, so many that with the special ones there are
            no more rows than this; the others become <unk>. None: all are kept.

    Returns:
        Symbols and counts, from the row with number 4 on.

    Raises:
        InputError: a file can't be read as text.
    """
    counts: Counter[str] = Counter()
    for path in paths:
        for block in map_blocks(_symbol_counter, path, workers, _COUNTED_BYTES):
            counts.update(block)
    for symbol in SPECIAL_SYMBOLS:
        del counts[symbol]
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if most_rows is not None:
        ordered = ordered[: most_rows - len(SPECIAL_SYMBOLS)]
    entries = {symbol: count for symbol, count in ordered if count >= threshold}
    for symbol in also:
        entries.setdefault(symbol, counts[symbol])
    return _padded(entries, padding_factor)


def _padded(entries: dict[str, int], padding_factor: int) -> list[tuple[str, int]]:
    number = 0
    while (len(SPECIAL_SYMBOLS) + len(entries)) % padding_factor:
        entries.setdefault(f"madeupword{number:04d}", 0)
        number += 1
    return list(entries.items())


def dictionary_entries(path: str | Path) -> Iterator[tuple[str, int]]:
    """Yields the symbol and the count of each line of a fairseq dictionary.

    Raises:
        InputError: a line has another form; the message names the line.
    """
    for number, line in enumerate(read_lines(path), start=1):
        symbol, _, count = line.removesuffix(" #fairseq:overwrite").rpartition(" ")
        if symbol.split() != [symbol] or not count.isdecimal() or len(count) > MOST_DIGITS:
            raise InputError(f"{path}:{number}: must be a symbol, a space and a count: {line!r}")
        yield symbol, int(count)


def read_dictionary(path: str | Path, padding_factor: int) -> list[tuple[str, int]]:
    """Reads a fairseq dictionary (`SYMBOL COUNT` a line) in the form of `build_dictionary`.

    Args:
        path: of the dictionary.
        padding_factor: as in `build_dictionary`.

    Returns:
        Symbols and counts, from the row with number 4 on.

    Raises:
        InputError: a line has another form, a symbol occurs twice or is a special one (the message
            names the line), or the file has no line.
    """
    entries: dict[str, int] = {}
    for number, (symbol, count) in enumerate(dictionary_entries(path), start=1):
        if symbol in entries or symbol in SPECIAL_SYMBOLS:
            raise InputError(f"{path}:{number}: {symbol} is in the dictionary already: remove it")
        entries[symbol] = count
    if not entries:
        raise InputError(f"{path}: the file is empty")
    return _padded(entries, padding_factor)


def write_dictionary(entries: Iterable[tuple[str, int]], path: Path) -> None:
    """Writes `dict.LANG.txt`."""
    with write_atomically(path) as write:
        for symbol, count in entries:
            write(f"{symbol} {count}")


def read_sizes(prefix: str | Path) -> np.ndarray:
    """Reads the number of tokens of each line of a binary text; </s> counts.

    Args:
        prefix: path without `.bin` or `.idx`.

    Returns:
        (lines,), int64.

    Raises:
        InputError: the .idx file is no index, or not the index of this text; names the file.
        OSError: a file can't be read.
    """
    return _read_index(prefix)[0]


def read_numbers(prefix: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """Reads the numbers of all lines of a binary text, one line after the other, and their sizes.

    Args:
        prefix: path without `.bin` or `.idx`.

    Returns:
        (tokens,) and (lines,), int64.

    Raises:
        InputError: the .idx file is no index, or not the index of this text; names the file.
        OSError: a file can't be read.
    """
    sizes, kind = _read_index(prefix)
    numbers = np.fromfile(f"{prefix}.bin", _ITEM_TYPES[kind])
    return numbers.astype(np.int64), sizes


def _read_index(prefix: str | Path) -> tuple[np.ndarray, int]:
    """Reads the sizes of the lines, and fairseq's code of the integer type."""
    content = Path(f"{prefix}.idx").read_bytes()
    magic, version, kind, lines = _HEADER.unpack(content[: _HEADER.size].ljust(_HEADER.size, b"\0"))
    expected = _HEADER.size + 12 * lines
    if (magic, version) != (_MAGIC, 1) or kind not in _ITEM_TYPES or len(content) != expected:
        raise InputError(f"{prefix}.idx: no index of fairseq's mmap kind: binarize the text again")
    sizes = np.frombuffer(content, "<i4", lines, _HEADER.size).astype(np.int64)
    offsets = np.frombuffer(content, "<i8", lines, _HEADER.size + 4 * lines)
    bytes_of_lines = sizes * np.dtype(_ITEM_TYPES[kind]).itemsize
    ends = np.cumsum(bytes_of_lines)
    total = int(ends[-1]) if lines else 0
    fits = (sizes >= 0).all() and (offsets == ends - bytes_of_lines).all()
    if not fits or total != Path(f"{prefix}.bin").stat().st_size:
        raise InputError(f"{prefix}.idx: isn't the index of {prefix}.bin: binarize the text again")
    return sizes, kind


def type_code(rows: int) -> str:
    """Returns the integer type for a dictionary of `rows` rows, as a code of `array` and NumPy."""
    return "H" if rows < 65500 else "I"


class _Numbers(dict[str, int]):
    """Maps a symbol to its number."""

    def __missing__(self, symbol: str) -> int:
        return UNKNOWN


def make_numberer(symbols: list[str]) -> Callable[[Block], tuple[bytes, bytes]]:
    """Returns a function from a block to its part of the .bin file and its lines' sizes (int32).

    Args:
        symbols: of the dictionary, without the special ones.
    """
    numbers = _Numbers((symbol, n) for n, symbol in enumerate((*SPECIAL_SYMBOLS, *symbols)))
    number_of = numbers.__getitem__
    code = type_code(len(numbers))

    def convert(block: Block) -> tuple[bytes, bytes]:
        tokens, sizes = array(code), array("i")
        for line in block.lines():
            words = line.split()
            tokens.extend(map(number_of, words))
            tokens.append(EOS)
            sizes.append(len(words) + 1)
        return tokens.tobytes(), sizes.tobytes()

    return convert


def _complete_index(index: io.BufferedRandom, lines: int, code: str) -> None:
    """Completes an .idx file that holds the sizes: appends the offsets and writes the header."""
    item_size = array(code).itemsize
    offset = 0
    for start in range(0, lines, _SIZES_AT_A_TIME):
        count = min(_SIZES_AT_A_TIME, lines - start)
        index.seek(_HEADER.size + 4 * start)
        sizes = np.frombuffer(index.read(4 * count), dtype=np.int32).astype(np.int64)
        ends = offset + np.cumsum(sizes) * item_size
        index.seek(_HEADER.size + 4 * lines + 8 * start)
        index.write((ends - sizes * item_size).tobytes())
        offset = int(ends[-1])
    index.seek(0)
    index.write(_HEADER.pack(_MAGIC, 1, {"H": 8, "I": 9}[code], lines))


def binarize(source: str, prefix: Path, symbols: list[str], workers: int) -> int:
    """Writes PREFIX.bin and PREFIX.idx; returns the number of lines.

    Args:
        source: the text, plain or `.gz`.
        prefix: path without `.bin` or `.idx`.
        symbols: of the dictionary, without the special ones.
        workers: number of processes.

    Raises:
        InputError: the file can't be read as text.
    """
    assert sys.byteorder == "little", "fairseq's format is little-endian"
    lines = 0
    index_file = NamedFile(f"{prefix}.idx", "w+b", f"{prefix}.idx")
    with write_bytes_atomically(f"{prefix}.bin") as data, io.BufferedRandom(index_file) as index:
        index.write(b"\0" * _HEADER.size)
        for tokens, sizes in map_blocks(partial(make_numberer, symbols), source, workers):
            data.write(tokens)
            index.write(sizes)
            lines += len(sizes) // 4
        _complete_index(index, lines, type_code(len(SPECIAL_SYMBOLS) + len(symbols)))
    return lines
