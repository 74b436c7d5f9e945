"""Learns word pieces: by sentencepiece, and by the gain in likelihood as published.

The kind `likelihood` is the published one: as in Schuster and Nakajima (2012), which Wu et al.
(2016) cite, each step merges the pair of neighbours that raises the likelihood of the text under a
unigram model of the pieces most. No library has it. Let c_x be the count of the piece x, N the sum
of all counts, n the count of the pair (a, b), and f(x) = x log x. Merging all occurrences of the
pair raises log P by exactly

    f(n) + f(c_a - n) - f(c_a) + f(c_b - n) - f(c_b) - f(N - n) + f(N),

with c_a - 2 n if a and b are the same piece. BPE merges the most frequent pair instead.

Axes: P pairs.
"""

import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping
from io import BytesIO
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import read_lines, refuse_pipes
from vaswani_plugin.text.raw_text import canonical
from vaswani_plugin.text.wordpiece import MARK

KINDS = ("unigram", "bpe", "likelihood")
SAMPLE = 10_000_000  # the most lines of a corpus that sentencepiece gets; it holds them in memory
LONGEST_PIECE = 16  # longest piece of `likelihood` in letters, as in sentencepiece
LEAST_GAIN = 1e-9  # smallest gain of a merge in nats; a smaller one is rounding error
_SPACES = "\u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f\u3000"
_STAND_INS = {c: chr(0xFDD0 + number) for number, c in enumerate(MARK + _SPACES)}
_LINE_ENDS = "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029"
_SETTINGS: dict[str, Any] = {
    "byte_fallback": True,
    # As in Wu et al. (2016), very rare letters (here: one in 50,000) get no row.
    "character_coverage": 0.99998,
    "unk_id": 0,
    "bos_id": 1,
    "eos_id": 2,
    # fairseq has its own <pad>: as a control symbol, it is never learned as a piece.
    "pad_id": 3,
    # A float sum over threads depends on their number, so the number is the same everywhere.
    "num_threads": 8,
    # In bytes. sentencepiece skips longer lines, by default those above 4,192, without an error.
    "max_sentence_length": 1 << 30,
}


def _rules(replacements: dict[str, str]) -> str:
    """Rules of normalization as sentencepiece reads them: code points, a tab, code points."""
    return "".join(f"{ord(a):X}\t{ord(b):X}\n" for a, b in replacements.items())


def _sentences(paths: list[str], sample: int) -> Iterator[str]:
    """Yields lines with words; at most `sample` of them, evenly spaced over all files."""
    # sentencepiece's own sampling differs from process to process, even with a fixed seed.
    refuse_pipes(paths)
    total = 0
    for path in paths:
        count = sum(bool(line.strip()) for line in read_lines(path))
        if count == 0:
            raise UserError(f"{path}: the file holds no words")
        total += count
    texts = (map(canonical, read_lines(path)) for path in paths)
    lines = enumerate(line for text in texts for line in text if line.strip())
    kept = min(sample, total)
    # Counting has already checked the text: an error inside the library would lose its message.
    return (line for n, line in lines if (n + 1) * kept // total > n * kept // total)


def learn(
    paths: list[str], size: int, kind: str, sample: int = SAMPLE, at_most: bool = False
) -> bytes:
    """Learns one model from all files together; equal input gives equal bytes, on any machine.

    `size` is the number of pieces, including 256 bytes and 4 special pieces; with `at_most` they
    may be fewer if the text doesn't give so many. `kind` is `unigram` (Kudo 2018), `bpe` (Sennrich
    et al. 2016) or `likelihood` (Schuster and Nakajima 2012), for up to a few million words. At
    most `sample` lines are used, evenly spaced, which limits the memory. Letters get at most half
    of the rows beside these 260: of the thousands in Chinese text, the rarest become bytes.
    """
    model_type = "bpe" if kind == "likelihood" else kind
    counts = Counter(chain.from_iterable("".join(x.split()) for x in _sentences(paths, sample)))
    rare = counts.most_common()[max(0, size - 260) // 2 :]
    names = {ord(x): "<unk>" for x, _ in rare}  # sentencepiece learns no piece across it
    try:
        model = _train(paths, size, model_type, sample, names)
    except RuntimeError as error:
        highest = re.search(r"set it to a value <= (\d+)", str(error))
        if not (at_most and highest):
            reason = "too few for 256 bytes and 4 special pieces"
            if highest:
                reason = f"too many for this text, which gives at most {highest[1]}"
            raise UserError(f"--size {size}: {reason}") from error
        model = _train(paths, int(highest[1]), model_type, sample, names)
    return _merged_by_likelihood(model, paths, sample) if kind == "likelihood" else model


def _train(paths: list[str], size: int, model_type: str, sample: int, names: dict) -> bytes:
    from sentencepiece import sentencepiece_model_pb2 as model_pb2  # applying does not need it

    sentences = (x.translate(names) if names else x for x in _sentences(paths, sample))
    model = BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        rules, back = Path(folder, "rules"), Path(folder, "back")
        rules.write_text(_rules(_STAND_INS | dict.fromkeys(_LINE_ENDS, " ")))
        back.write_text(_rules({b: a for a, b in _STAND_INS.items()}))
        SentencePieceTrainer.train(
            sentence_iterator=sentences,
            model_writer=model,
            model_type=model_type,
            vocab_size=size,
            normalization_rule_tsv=str(rules),
            denormalization_rule_tsv=str(back),
            # Its log goes to a terminal only; errors are raised as exceptions.
            minloglevel=0 if sys.stderr.isatty() else 2,
            **_SETTINGS,
        )
    proto = model_pb2.ModelProto.FromString(model.getvalue())
    for spec in (proto.normalizer_spec, proto.denormalizer_spec):
        spec.normalization_rule_tsv = ""  # a temporary file's name: equal input gives equal bytes
    return proto.SerializeToString(deterministic=True)


def _merged_by_likelihood(model: bytes, paths: list[str], sample: int) -> bytes:
    """Replaces the merges of sentencepiece's BPE model by those of `merges_by_likelihood`."""
    # Letters, bytes, special pieces and normalization stay. If fewer merges raise the likelihood,
    # the model is smaller.
    from sentencepiece import sentencepiece_model_pb2 as model_pb2

    encoder = SentencePieceProcessor(model_proto=model)
    proto = model_pb2.ModelProto.FromString(model)
    normal = model_pb2.ModelProto.SentencePiece.Type.NORMAL
    letters = [p.piece for p in proto.pieces if p.type == normal and len(p.piece) == 1]
    specials = [p for p in proto.pieces if p.type != normal]
    known = set(letters)
    words: Counter[tuple[str, ...]] = Counter()
    for line in _sentences(paths, sample):
        for word in encoder.normalize(line).split(MARK):
            if word:
                # A letter without a piece becomes bytes, which are never merged.
                words[MARK, *(letter if letter in known else "" for letter in word)] += 1
    count = len(proto.pieces) - len(specials) - len(letters)
    merges = merges_by_likelihood(words, count, {p.piece for p in specials})
    names = [*map("".join, merges), *letters]  # the merge that was learned first is applied first
    del proto.pieces[:]
    proto.pieces.extend(specials)
    for rank, name in enumerate(names):
        proto.pieces.add(piece=name, score=-float(rank), type=normal)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString(deterministic=True)


def merges_by_likelihood(
    words: Mapping[tuple[str, ...], int], count: int, taken: Container[str] = ()
) -> Iterator[tuple[str, str]]:
    """Yields at most `count` pairs to merge, in order; each raises the likelihood most at its step.

    `words` has each word's letters, and how often it occurs; an empty letter is in no piece. Merges
    that gain nothing are left out, and those that make a piece that is `taken`.
    """
    inventory = _Inventory(words, taken)
    for _ in range(count):
        if (pair := inventory.best_pair()) is None:
            return
        yield pair
        inventory.merge(pair)


class _Inventory:
    """The words as pieces, with the counts from which the gain is computed."""

    def __init__(self, words: Mapping[tuple[str, ...], int], taken: Container[str]) -> None:
        self.taken = taken
        ordered = sorted(words.items())
        self.words = [list(word) for word, _ in ordered]  # their pieces
        self.frequency = [frequency for _, frequency in ordered]
        self.pieces = _Table()  # c_x
        self.pairs = _Table()  # n
        self.sides = np.zeros((2, 1024), dtype=np.int64)  # rows of each pair's pieces
        self.places: dict[tuple[str, str], set[int]] = defaultdict(set)  # words with a pair
        for number in range(len(self.words)):
            self._count(number, 1)

    def _count(self, number: int, sign: int) -> None:
        """Adds a word's pieces and pairs to the counts (sign 1), or subtracts them (sign -1)."""
        word, frequency = self.words[number], sign * self.frequency[number]
        for piece in word:
            self.pieces.add(piece, frequency)
        for pair in merged_apart(word):
            piece = "".join(pair)
            if all(pair) and len(piece) <= LONGEST_PIECE and piece not in self.taken:
                row = self.pairs.add(pair, frequency)
                if row == self.sides.shape[1]:
                    self.sides = np.concatenate((self.sides, np.zeros_like(self.sides)), axis=1)
                self.sides[:, row] = [self.pieces.rows[piece] for piece in pair]
                (self.places[pair].add if sign > 0 else self.places[pair].discard)(number)

    def best_pair(self) -> tuple[str, str] | None:
        """The pair that raises the likelihood most; among equals, the alphabetically first."""
        present = np.flatnonzero(self.pairs.counts)
        if not len(present):
            return None
        first, second = self.sides[:, present]
        counts = self.pieces.counts.astype(np.float64)
        n, of_first, of_second = self.pairs.counts[present], counts[first], counts[second]
        gains = likelihood_gain(n, of_first, of_second, first == second, counts.sum())
        if gains.max() <= LEAST_GAIN:
            return None
        return min(self.pairs.names[row] for row in present[gains == gains.max()])

    def merge(self, pair: tuple[str, str]) -> None:
        """Replaces the pair by one piece in every word.

        The same letters between two borders are divided alike: no other pair makes this piece.
        """
        for number in sorted(self.places[pair]):
            self._count(number, -1)
            self.words[number] = merge_pair(self.words[number], pair)
            self._count(number, 1)


class _Table:
    """Counts by name, stored in an array with one row for each name."""

    def __init__(self) -> None:
        self.rows: dict = {}
        self.names: list = []
        self.counts = np.zeros(1024, dtype=np.int64)  # unused rows at the end are 0

    def add(self, name: str | tuple[str, str], count: int) -> int:
        """Adds to a name's count; returns its row. A new name gets a new row."""
        row = self.rows.setdefault(name, len(self.names))
        if row == len(self.names):
            self.names.append(name)
            if row == len(self.counts):
                self.counts = np.concatenate((self.counts, np.zeros_like(self.counts)))
        self.counts[row] += count
        return row


def likelihood_gain(
    n: np.ndarray, of_first: np.ndarray, of_second: np.ndarray, same: np.ndarray, total: float
) -> np.ndarray:
    """How much merging each pair adds to log P of the text, in nats, (P,).

    Arguments: n, c_a, c_b, whether a equals b, (P,); N. The formula is on top of this file.
    """
    once = _f(of_first - n) - _f(of_first) + _f(of_second - n) - _f(of_second)
    twice = _f(of_first - 2 * n) - _f(of_first)
    return _f(n) + np.where(same, twice, once) - _f(total - n) + _f(total)


def _f(x: np.ndarray | float) -> np.ndarray:
    """x log x; 0 for x <= 0 (negative x occurs only in values that are not used)."""
    x = np.maximum(x, 0)
    return x * np.log(np.where(x > 0, x, 1))


def merged_apart(word: list[str]) -> Iterator[tuple[str, str]]:
    """Yields a word's neighbours without overlaps: (a, a) occurs once in a a a, not twice."""
    before: tuple[str, str] | None = None
    for pair in pairwise(word):
        if pair[0] != pair[1] or pair != before:
            yield (before := pair)
        else:
            before = None


def merge_pair(word: list[str], pair: tuple[str, str]) -> list[str]:
    """Replaces each occurrence of the pair in the word, from left to right, by one piece."""
    merged: list[str] = []
    place = 0
    while place < len(word):
        size = 2 if tuple(word[place : place + 2]) == pair else 1
        merged.append("".join(word[place : place + size]))
        place += size
    return merged
