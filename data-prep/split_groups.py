"""Splits sentence pairs into train, valid and test so that no sentence is in two of them.

    split_groups.py all.en all.de --output raw --train 0 --valid 2000 --test 2000

Pairs that share a sentence on either side, directly or through other pairs, form a group, and a
group stays together. Sentences are equal here if their letters and digits are equal, without regard
to case. Repeated pairs are dropped. Small groups go to test, then to valid, until these have the
wanted numbers of pairs. The rest, or its first N pairs, is train. The same text gives the same
splits.

Axes: N pairs, K different sentences of both sides.
"""

import hashlib
import unicodedata
from array import array
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from checkout import at_least, parser, run

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.lines import read_pairs
from vaswani_plugin.text.outputs import write_atomically

# Larger groups are not held out: a test set of a few sentences and their paraphrases says little.
LARGEST_GROUP = 6


def letters_and_digits(sentence: str) -> str:
    """Returns a sentence's letters and digits, case-folded; the sentence itself if it has none."""
    text = unicodedata.normalize("NFKC", sentence).casefold()
    return "".join(filter(str.isalnum, text)) or sentence


def loose_key(sentence: str) -> int:
    """Returns an 8-byte hash, equal for sentences with the same letters and digits."""
    text = letters_and_digits(sentence).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def group_numbers(left: array, right: array) -> np.ndarray:
    """Numbers the groups of pairs that are linked by shared sentences.

    Args:
        left: `loose_key` of each pair's left side, N of type "Q".
        right: the same for the right sides. Equal keys on the left and on the right count as
            different sentences.

    Returns:
        (N,), int64: the same number for all pairs of a group.
    """
    lefts, left_ids = np.unique(np.asarray(left, dtype=np.uint64), return_inverse=True)
    rights, right_ids = np.unique(np.asarray(right, dtype=np.uint64), return_inverse=True)
    parents = array("q", range(len(lefts) + len(rights)))  # K

    def root(node: int) -> int:
        while (parent := parents[node]) != node:
            parents[node] = parents[parent]
            node = parents[node]
        return node

    offset = len(lefts)
    for one, other in zip(left_ids.tolist(), right_ids.tolist(), strict=True):
        parents[root(offset + other)] = root(one)
    roots = np.fromiter(map(root, range(offset)), dtype=np.int64, count=offset)
    return roots[left_ids]


def hold_out(left: array, right: array, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Chooses the pairs of held-out sets.

    Groups are taken in the order of their smallest key. So the same pairs give the same sets in any
    order, and a few new pairs change the sets little. Groups of more than `LARGEST_GROUP` pairs are
    never taken.

    Args:
        left: `loose_key` of each pair's left side, N of type "Q".
        right: the same for the right sides.
        sizes: number of pairs for each set; a set may get up to `LARGEST_GROUP` - 1 more.

    Returns:
        By set, a mask of its pairs, (N,), bool.

    Raises:
        UserError: too few pairs are in small groups, or no pairs remain for training.
    """
    keys = np.asarray(left, dtype=np.uint64)
    _, groups, counts = np.unique(
        group_numbers(left, right), return_inverse=True, return_counts=True
    )
    least = np.full(len(counts), np.iinfo(np.uint64).max, dtype=np.uint64)
    np.minimum.at(least, groups, keys)
    order = np.argsort(least, kind="stable")
    order = order[counts[order] <= LARGEST_GROUP]
    ends = np.cumsum(counts[order])  # pairs up to and including each group
    sets, first, taken = {}, 0, 0
    for name, size in sizes.items():
        last = int(np.searchsorted(ends, taken + size))  # the group that completes the set
        if size and last == len(order):
            raise UserError(
                f"{size} pairs for {name}: the corpus has too few pairs that share no sentence "
                f"with many others ({int(ends[-1]) if len(ends) else 0} in all): ask for fewer, or "
                f"give a {name} set of your own"
            )
        stop = last + 1 if size else first
        chosen = np.zeros(len(counts), dtype=bool)
        chosen[order[first:stop]] = True
        sets[name] = chosen[groups]
        first, taken = stop, int(ends[stop - 1]) if stop else 0
    if sum(int(members.sum()) for members in sets.values()) == len(keys):
        asked = " and ".join(f"{size} pairs for {name}" for name, size in sizes.items())
        raise UserError(f"{asked}: nothing is left to train on: ask for fewer")
    return sets


def distinct_pairs(paths: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Yields the pairs of two files without repeats."""
    return iter(dict.fromkeys(read_pairs(*paths)))


def split(paths: tuple[str, str], sizes: dict[str, int]) -> dict[str, list[tuple[str, str]]]:
    """Returns the held-out sets by name, and the other pairs as "train".

    Raises:
        UserError: there are too few pairs.
    """
    keys = array("Q"), array("Q")
    for pair in distinct_pairs(paths):
        for column, sentence in zip(keys, pair, strict=True):
            column.append(loose_key(sentence))
    members = {name: chosen.tolist() for name, chosen in hold_out(*keys, sizes).items()}
    splits: dict[str, list[tuple[str, str]]] = {name: [] for name in (*members, "train")}
    for number, pair in enumerate(distinct_pairs(paths)):
        name = next((name for name, chosen in members.items() if chosen[number]), "train")
        splits[name].append(pair)
    return splits


def main() -> None:
    """Command line."""
    flags = parser(__doc__)
    add = flags.add_argument
    add("source", help="source text SOMETHING.LANG, one sentence per line")
    add("target", help="target text SOMETHING.LANG")
    add("--output", type=Path, required=True, help="folder of the files SPLIT.LANG")
    add("--train", type=int, default=0, help="most pairs of train (default: 0, all)")
    add("--valid", type=int, default=2000, help="pairs (default: 2000)")
    add("--test", type=int, default=2000, help="pairs (default: 2000)")
    args = flags.parse_args()
    at_least(args, train=0, valid=0, test=0)
    paths = (args.source, args.target)
    endings = [Path(path).suffix for path in paths]
    if endings[0] == endings[1]:
        raise UserError(f"{args.source} and {args.target}: the files' endings must differ")
    splits = split(paths, {"test": args.test, "valid": args.valid})
    splits["train"] = splits["train"][: args.train or None]
    with ExitStack() as stack:
        for name, pairs in splits.items():
            for side, ending in enumerate(endings):
                write = stack.enter_context(write_atomically(args.output / f"{name}{ending}"))
                for pair in pairs:
                    write(pair[side])
    print(", ".join(f"{name} {len(pairs)}" for name, pairs in splits.items()) + f": {args.output}")


if __name__ == "__main__":
    run(main)
