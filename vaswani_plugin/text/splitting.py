"""Held-out sets that share no sentence with the training set.

Pairs that share a sentence on either side form a group (directly, or over other pairs), and a group
stays together. Sentences are the same where their letters and digits are, whatever their case.
Nothing of the text is kept in memory: a pair costs two keys of 8 bytes, and some 60 bytes while the
groups are made.

Axes: N pairs, K different sentences of both sides.
"""

import hashlib
import unicodedata
from array import array

import numpy as np

from vaswani_plugin.text.messages import InputError

# A test set of a few sentences in all their paraphrases would say little.
LARGEST_GROUP = 6


def letters_and_digits(sentence: str) -> str:
    """Letters and digits alone, without case; the sentence itself where it has none."""
    text = unicodedata.normalize("NFKC", sentence).casefold()
    return "".join(filter(str.isalnum, text)) or sentence


def sentence_key(sentence: str) -> int:
    """A hash of 8 bytes, equal for sentences with the same letters and digits."""
    text = letters_and_digits(sentence).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def group_numbers(left: array, right: array) -> np.ndarray:
    """The groups of pairs that are linked by shared sentences.

    Args:
        left: `sentence_key` of each pair's left side, N of type "Q".
        right: the same of the right sides. A key on the left and the same key on the right are two
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

    Groups are taken in the order of their least key: the same pairs give the same sets in whatever
    order they come, and a few new pairs move few of the old ones. Groups of more than
    `LARGEST_GROUP` pairs are never taken.

    Args:
        left: `sentence_key` of each pair's left side, N of type "Q".
        right: the same of the right sides.
        sizes: pairs of each set that are asked for; a set may get `LARGEST_GROUP` - 1 more.

    Returns:
        (N,), bool, by set: the pairs that are in it.

    Raises:
        InputError: too few pairs in small groups, or nothing is left to train on.
    """
    keys = np.asarray(left, dtype=np.uint64)
    _, groups, counts = np.unique(
        group_numbers(left, right), return_inverse=True, return_counts=True
    )
    least = np.full(len(counts), np.iinfo(np.uint64).max, dtype=np.uint64)
    np.minimum.at(least, groups, keys)
    order = np.argsort(least, kind="stable")
    order = order[counts[order] <= LARGEST_GROUP]
    ends = np.cumsum(counts[order])  # pairs of the groups up to and with this one
    sets, first, taken = {}, 0, 0
    for name, size in sizes.items():
        last = int(np.searchsorted(ends, taken + size))  # the group that fills the set
        if size and last == len(order):
            raise InputError(
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
        raise InputError(f"{asked}: nothing is left to train on: ask for fewer")
    return sets
