"""Splits sentence pairs into train, valid and test so that no sentence is in two of them.

    split_groups.py all.en all.de --output raw --train 0 --valid 2000 --test 2000

Pairs that share a sentence on either side form a group, and a group stays together. Sentences are
the same where their letters and digits are, whatever their case. Exact repeats are dropped. Test,
then valid take small groups until they have the number asked for; the rest, or its first N pairs,
is train. The order in which groups are taken is that of sha256 sums: the same text gives the same
splits, and a few new pairs move few of the old ones.
"""

import argparse
import hashlib
import sys
import unicodedata
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from vaswani_plugin.text.corpus_io import InputError, read_pairs, run, write_atomically  # noqa: E402

Pair = tuple[str, str]
# A test set of a few sentences in all their paraphrases would say little.
LARGEST_GROUP = 6


def plain(sentence: str) -> str:
    """Letters and digits alone, without case; the sentence itself where it has none."""
    text = unicodedata.normalize("NFKC", sentence).casefold()
    return "".join(filter(str.isalnum, text)) or sentence


def group(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """Pairs linked by shared sentences, directly or over others; in order of appearance."""
    parents: dict[tuple[int, str], tuple[int, str]] = {}

    def root(node: tuple[int, str]) -> tuple[int, str]:
        while (parent := parents.setdefault(node, node)) != node:
            parents[node] = parents[parent]
            node = parent
        return node

    distinct = list(dict.fromkeys(pairs))
    for left, right in distinct:
        parents[root((1, plain(right)))] = root((0, plain(left)))
    groups: dict[tuple[int, str], list[Pair]] = {}
    for pair in distinct:
        groups.setdefault(root((0, plain(pair[0]))), []).append(pair)
    return list(groups.values())


def split(pairs: Iterable[Pair], train: int, valid: int, test: int) -> dict[str, list[Pair]]:
    """The splits by name; valid and test may have up to LARGEST_GROUP - 1 pairs more than asked.

    Raises:
        InputError: too few pairs.
    """
    groups = group(pairs)
    candidates = [number for number, members in enumerate(groups) if len(members) <= LARGEST_GROUP]
    candidates.sort(key=lambda n: hashlib.sha256(min(groups[n])[0].encode()).digest())
    splits: dict[str, list[Pair]] = {}
    taken: set[int] = set()
    for name, size in (("test", test), ("valid", valid)):
        chosen: list[Pair] = []
        while len(chosen) < size and candidates:
            number = candidates.pop()
            taken.add(number)
            chosen += groups[number]
        if len(chosen) < size:
            raise InputError(f"--{name} {size}: the corpus has too few pairs in small groups")
        splits[name] = chosen
    rest = [
        pair for number, members in enumerate(groups) if number not in taken for pair in members
    ]
    if not rest:
        raise InputError(f"--valid {valid} --test {test}: nothing is left to train on")
    splits["train"] = rest[: train or None]
    return splits


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", help="named .LANG, one sentence a line")
    parser.add_argument("target")
    parser.add_argument("--output", type=Path, required=True, help="folder of SPLIT.LANG")
    parser.add_argument("--train", type=int, default=0, help="pairs at most (default 0: all)")
    parser.add_argument("--valid", type=int, default=2000)
    parser.add_argument("--test", type=int, default=2000)
    args = parser.parse_args()
    endings = [Path(path).suffix for path in (args.source, args.target)]
    if min(args.train, args.valid, args.test) < 0 or endings[0] == endings[1]:
        raise InputError("numbers of pairs can't be negative, and the files' endings must differ")
    splits = split(read_pairs(args.source, args.target), args.train, args.valid, args.test)
    with ExitStack() as stack:
        for name, pairs in splits.items():
            for side, ending in enumerate(endings):
                write = stack.enter_context(write_atomically(args.output / f"{name}{ending}"))
                for pair in pairs:
                    write(pair[side])
    print(", ".join(f"{name} {len(pairs)}" for name, pairs in splits.items()) + f": {args.output}")


if __name__ == "__main__":
    run(main)
