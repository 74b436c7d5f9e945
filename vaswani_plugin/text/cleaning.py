"""Cleans text by few rules, divides it into train, valid and test, and reports what was dropped.

`clean` is for a published corpus: the rules on lengths are those of Moses' clean-corpus-n.perl, in
words, and no line is rewritten. `prepare_pairs` is for a user's own text in any script: lengths are
in characters or bytes, because many languages write no blanks between words; invisible characters
are removed, and the text gets Unicode's form NFC (raw_text.py). For more rules there is OpusFilter.

Two sentences are the same if they are equal in Unicode's form NFC, apart from spaces and case.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from statistics import median
from typing import Any

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import read_pairs, read_text, refuse_pipes
from vaswani_plugin.files.outputs import write_atomically
from vaswani_plugin.text.raw_text import canonical, composed

MOST_CHARACTERS = 1000  # of a word, as in clean-corpus-n.perl
MOST_DROPPED = 0.5  # share of a file that a rule may drop; if it drops more, the file is wrong
LEAST_PAIRS = 20  # fewer pairs are too few to train and test
SAMPLE = 10_000  # pairs from which the usual ratio of the sides' lengths is learned
SHORT = 10  # characters added to both lengths before the comparison: short sentences vary most

REPEATED, LEAKED = "repeated", "shares a sentence with held-out text"
EMPTY, TOO_LONG, COLUMNS = "empty", "too long", "another number of columns"
COPY, UNEVEN = "the same text on both sides", "lengths that don't fit"
REMEDIES = {
    COLUMNS: "give source <tab> target alone, or name these columns, such as --columns 2,3",
    EMPTY: "give text without empty sides",
    TOO_LONG: "one sentence a line, or raise --max-length",
    COPY: "give two different files",
    UNEVEN: "the sides must correspond line by line; if they do, raise --max-ratio",
    LEAKED: "give a validation and a test set that are not part of the training text",
}
"""By rule, the remedy if it drops most of a file. Repeated lines are no fault of a file."""

Pair = tuple[str, str]
Columns = tuple[int, int] | None
Keys = tuple[int, int]


has_controls = re.compile(r"[\0-\x08\n-\x1f\x7f-\x9f]").search
"""Whether a line has control characters other than the tab: binary data, or a wrong coding."""


def broken_rule(left: str, right: str, max_length: int, max_ratio: float) -> str | None:
    """Returns the first rule of `clean` that a pair breaks, or None."""
    words, others = left.split(), right.split()
    if not words or not others:
        return "empty side"
    if has_controls(left) or has_controls(right):
        return "control character"
    low, high = sorted((len(words), len(others)))
    if high > max_length:
        return f"longer than {max_length} words"
    if high / low > max_ratio:
        return f"length ratio over {max_ratio:g}"
    longest = max(map(len, words + others)) if max(len(left), len(right)) > MOST_CHARACTERS else 0
    return f"word longer than {MOST_CHARACTERS} characters" if longest > MOST_CHARACTERS else None


def clean(
    files: Pair, outputs: Pair, max_length: int, max_ratio: float, drop_duplicates: bool
) -> dict[str, Any]:
    """Writes the pairs that break no rule; returns the counts read, kept and removed by rule.

    `max_length` is the most words of a side, `max_ratio` the most for each word of the other side.
    """
    from tqdm import tqdm

    removed: Counter[str] = Counter()
    seen: set[int] = set()
    kept = 0
    with write_atomically(outputs[0]) as write_left, write_atomically(outputs[1]) as write_right:
        pairs = read_pairs(*files, returns_inside=True)  # such lines are dropped
        for left, right in tqdm(pairs, desc=f"cleaning {files[0]}", unit=" pairs", disable=None):
            rule = broken_rule(left, right, max_length, max_ratio)
            if rule is None and drop_duplicates:
                # A line holds no "\n", so no two different pairs give the same text here.
                key = short_hash(f"{left}\n{right}")
                rule = "duplicate" if key in seen else None
                seen.add(key)
            if rule:
                removed[rule] += 1
            else:
                write_left(left)
                write_right(right)
                kept += 1
        if kept == 0:
            raise UserError(f"{files[0]} and {files[1]}: the rules leave no line: {dict(removed)}")
    return {"read": kept + removed.total(), "kept": kept, "removed": dict(removed)}


def short_hash(text: str) -> int:
    """Returns 8 bytes of a hash. Of n texts about n^2 / 2^65 have that of another."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def sentence_key(sentence: str) -> int:
    """Returns a hash that is the same for equal sentences."""
    return short_hash(" ".join(composed(sentence).lower().split()))


def read_rows(
    paths: tuple[str, ...], languages: Pair, columns: Columns = None, is_held_out: bool = False
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields (FILE:LINE, (source, target)) of two files, or of one with tab-separated columns.

    `columns` are the numbers of these two, from 0; a file `is_held_out` may have just these two.
    Without them a first line with the languages' names (or "source" and "target") names the
    columns; otherwise there must be two. A row of other columns than the first one has no texts.
    """
    if len(paths) > 2:
        raise UserError(f"{' '.join(paths)}: give two files, or one with a column a side")
    headings = ["source", "target"], [code.lower() for code in languages]
    if len(paths) == 2:
        rows: Iterable[Sequence[str]] = read_pairs(*paths)
        columns = None  # of another part of the text, which is one file
    else:
        rows = (line.split("\t") for line in read_text(paths[0]))
    source, target = columns or (0, 1)
    count = 2
    for number, row in enumerate(rows, start=1):
        if number == len(paths) == 1:
            if is_held_out and len(row) == 2 <= max(source, target):  # the columns are another's
                columns, source, target = None, 0, 1
            names = [name.strip().lower() for name in row]
            heading = next((each for each in headings if set(each) <= set(names)), None)
            if heading and not columns:
                source, target = names.index(heading[0]), names.index(heading[1])
            if heading or columns:
                count = len(row)
            if max(source, target) >= count:
                raise UserError(f"--columns: {paths[0]} has {count} columns")
            if heading:
                continue
        sides = (row[source], row[target]) if len(row) == count else ()
        yield f"{paths[0]}:{number}", tuple(map(canonical, sides))


def prepare_pairs(
    files: dict[str, tuple[str, ...]],
    languages: Pair,
    output: Path,
    max_length: int = 1000,
    max_ratio: float = 3.0,
    columns: Columns = None,
) -> dict[str, Any]:
    """Cleans a corpus and divides it into OUTPUT/SPLIT.LANGUAGE; returns the report.

    No sentence of held-out text is in the training text, on either side. Held-out pairs are those
    whose sentences occur once, in the order of a hash: the same pairs in any order give the same
    sets, and a few new pairs change them little. The text is not kept in memory.

    `files` are for "train", and for "valid" and "test" if they are not to be taken from it;
    `languages` and `columns` those of `read_rows`. A side has at most `max_length` bytes in UTF-8:
    a vocabulary that holds all bytes never makes more subwords than that, in any script. It may be
    `max_ratio` times longer than expected from the other side and the usual ratio of the sides.
    """
    refuse_pipes(chain(*files.values()))
    held_out: tuple[set[int], set[int]] = set(), set()
    report: dict[str, Any] = {"splits": Counter(), "files": {}}
    train = (sides for _, sides in read_rows(files["train"], languages, columns))
    sample = (len(sides[1]) / len(sides[0]) for sides in train if all(sides) and sides)
    proportion = median(list(islice(sample, SAMPLE)) or [1.0])

    def broken(left: str, right: str, keys: Keys, seen: set[Keys]) -> str | None:
        """The first rule that a pair breaks; `seen` are the keys of the pairs before it."""
        if not left.strip() or not right.strip():
            return EMPTY
        if max(len(left.encode()), len(right.encode())) > max_length:
            return TOO_LONG
        if keys[0] == keys[1]:
            return COPY
        lengths = len(left) * proportion + SHORT, len(right) + SHORT
        if max(lengths) > max_ratio * min(lengths):
            return UNEVEN
        if keys in seen:
            return REPEATED
        return LEAKED if keys[0] in held_out[0] or keys[1] in held_out[1] else None

    def kept(name: str) -> Iterator[tuple[Pair, Keys]]:
        """Yields the pairs of a file that break no rule, with their keys; then reports on it."""
        count = 0
        dropped: dict[str, dict[str, Any]] = {}
        seen: set[Keys] = set()
        rows = read_rows(files[name], languages, columns, is_held_out=True)
        for count, (place, sides) in enumerate(rows, start=1):  # noqa: B007
            rule: str | None = COLUMNS
            if sides:
                left, right = sides
                keys = sentence_key(left), sentence_key(right)
                rule = broken(left, right, keys, seen)
                seen.add(keys)
            if rule is None:
                yield (left, right), keys
            else:
                dropped.setdefault(rule, {"count": 0, "first": place})["count"] += 1
        for rule, drops in dropped.items():
            if rule in REMEDIES and drops["count"] > MOST_DROPPED * count:
                share = f"{drops['count']:,} of {count:,} pairs, first here"
                raise UserError(f"{drops['first']}: {rule}: {share}: {REMEDIES[rule]}")
        rest = count - sum(drops["count"] for drops in dropped.values())
        least = LEAST_PAIRS if name == "train" else 1
        if rest < least:
            few = f"{rest} pairs are too few: give at least {least} (dropped: {dropped})"
            raise UserError(f"{files[name][0]}: {few}")
        report["files"][name] = {"read": count, "kept": rest, "dropped": dropped}

    with ExitStack() as stack:
        writers: dict[str, list[Callable[[str], object]]] = {}

        def write(name: str, pair: Pair) -> None:
            if name not in writers:
                paths = [output / f"{name}.{language}" for language in languages]
                writers[name] = [stack.enter_context(write_atomically(path)) for path in paths]
            report["splits"][name] += 1
            for put, sentence in zip(writers[name], pair, strict=True):
                put(sentence)

        # The test set first: its sentences are excluded from the other splits.
        for name in ("test", "valid"):
            for pair, keys in list(kept(name)) if name in files else ():
                write(name, pair)
                for side, key in zip(held_out, keys, strict=True):
                    side.add(key)
        train_keys = [keys for _, keys in kept("train")]
        total = len(train_keys)
        # A validation or test set: 1/20 of the pairs, from 50 to 2,000, at most 1/10.
        size = min(max(total // 20, 50), 2000, total // 10)
        wanted = {name: size for name in ("test", "valid") if name not in files}
        names = choose_held_out(train_keys, wanted)
        for number, (pair, _) in enumerate(kept("train")):
            write(names.get(number, "train"), pair)
    return report


def choose_held_out(keys: list[Keys], sizes: dict[str, int]) -> dict[int, str]:
    """Chooses the pairs of held-out sets of these sizes among those whose sentences occur once.

    `keys` are those of each pair. Returns the name of the set by the number of the pair.
    """
    lefts, rights = (Counter(side) for side in zip(*keys, strict=True))
    once = [n for n, (left, right) in enumerate(keys) if lefts[left] == rights[right] == 1]
    if sum(sizes.values()) > len(once):
        asked = " and ".join(f"{size} pairs for {name}" for name, size in sizes.items())
        free = f"of {len(keys)} pairs, {len(once)} share no sentence with another"
        raise UserError(f"{asked}: {free}: give sets of your own")
    once.sort(key=lambda number: keys[number][0])
    names = (name for name, size in sizes.items() for _ in range(size))
    return {number: name for name, number in zip(names, once, strict=False)}
