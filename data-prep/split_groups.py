"""Splits sentence pairs into train, valid and test so that no sentence is in two of them.

    split_groups.py all.en all.de --output raw --train 0 --valid 2000 --test 2000

Pairs that share a sentence on either side, directly or through others, form a group and stay
together. Sentences are equal here if their letters and digits are, in any case. Repeated pairs are
dropped. Small groups go to test, then to valid, until these have the pairs that are wanted. The
rest, or its first N pairs, is train. The same text gives the same splits.
"""

import unicodedata
from pathlib import Path

from checkout import SPLITS, Flags, run

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import read_pairs
from vaswani_plugin.files.outputs import check_outputs, write_lines
from vaswani_plugin.text.cleaning import short_hash

# Larger groups are not held out: a test set of a few sentences and their paraphrases says little.
LARGEST_GROUP = 6


def loose_key(sentence: str) -> int:
    """Returns a hash that is equal for sentences with the same letters and digits."""
    text = unicodedata.normalize("NFKC", sentence).casefold()
    return short_hash("".join(filter(str.isalnum, text)) or sentence)


def groups_of(pairs: list[tuple[str, str]]) -> list[tuple[int, list[int]]]:
    """Finds the groups of linked pairs: the smallest left key, and the pairs' numbers.

    Equal sentences on the left and on the right count as different ones.
    """
    keys = [(loose_key(left), -1 - loose_key(right)) for left, right in pairs]
    parents = {key: key for both in keys for key in both}

    def root(key: int) -> int:
        while (parent := parents[key]) != key:
            parents[key] = key = parents[parent]
        return key

    for left, right in keys:
        parents[root(right)] = root(left)
    groups: dict[int, list[int]] = {}
    for number, (left, _) in enumerate(keys):
        groups.setdefault(root(left), []).append(number)
    return [(min(keys[n][0] for n in members), members) for members in groups.values()]


def split(pairs: list[tuple[str, str]], sizes: dict[str, int]) -> dict[str, list[tuple[str, str]]]:
    """Returns the held-out sets by name, and the other pairs as "train".

    Groups are taken by their smallest key: a few new pairs change the sets little. Those of more
    than `LARGEST_GROUP` pairs never are. A set may get `LARGEST_GROUP` - 1 pairs too many.
    """
    small = sorted(group for group in groups_of(pairs) if len(group[1]) <= LARGEST_GROUP)
    total, place = sum(len(members) for _, members in small), {}
    for name, size in sizes.items():
        taken: list[int] = []
        while len(taken) < size:
            if not small:
                raise UserError(f"--{name} {size}: only {total} pairs share no sentence with many")
            taken += small.pop(0)[1]
        place |= dict.fromkeys(taken, name)
    splits: dict[str, list[tuple[str, str]]] = {name: [] for name in (*sizes, "train")}
    for number, pair in enumerate(pairs):
        splits[place.get(number, "train")].append(pair)
    if not splits["train"]:
        raise UserError("nothing is left to train on: ask for fewer held-out pairs")
    return splits


def main(flags: Flags) -> None:
    flags.add("source", help="source text SOMETHING.LANG, one sentence per line")
    flags.add("target", help="target text SOMETHING.LANG")
    flags.add("--output", type=Path, required=True, help="folder of the files SPLIT.LANG")
    flags.number("--train", 0, "most pairs of train (default: 0, all)", 0)
    flags.number("--valid", 2000, "pairs (default: 2000)", 0)
    flags.number("--test", 2000, "pairs (default: 2000)", 0)
    args = flags.parse_args()
    endings = [Path(path).suffix for path in (args.source, args.target)]
    if endings[0] == endings[1]:
        raise UserError(f"{args.source} and {args.target}: the files' endings must differ")
    outputs = [args.output / f"{split}{ending}" for split in SPLITS for ending in endings]
    check_outputs("--output", outputs, [args.source, args.target])
    pairs = list(dict.fromkeys(read_pairs(args.source, args.target)))
    splits = split(pairs, {"test": args.test, "valid": args.valid})
    splits["train"] = splits["train"][: args.train or None]
    for name, chosen in splits.items():
        for side, ending in enumerate(endings):
            write_lines(args.output / f"{name}{ending}", (pair[side] for pair in chosen))
    print(", ".join(f"{name} {len(each)}" for name, each in splits.items()) + f": {args.output}")


if __name__ == "__main__":
    run(main, __doc__)
