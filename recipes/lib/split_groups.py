"""Splits sentence pairs into train, valid and test so that no sentence is in two of them.

    split_groups.py all.en all.de --output raw --train 0 --valid 2000 --test 2000

Pairs that share a sentence on either side form a group (`text/splitting.py`). Repeated pairs are
dropped. Small groups go to test, then to valid, until these have the wanted numbers of pairs. The
rest, or its first N pairs, is train. The same text gives the same splits.
"""

import argparse
import sys
from array import array
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from vaswani_plugin.text.cleaning import SeenPairs  # noqa: E402
from vaswani_plugin.text.corpus_io import read_pairs  # noqa: E402
from vaswani_plugin.text.messages import InputError, run  # noqa: E402
from vaswani_plugin.text.output_files import write_atomically  # noqa: E402
from vaswani_plugin.text.splitting import hold_out, sentence_key  # noqa: E402


def distinct_pairs(paths: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Yields the pairs of two files without repeats."""
    seen = SeenPairs()
    return (pair for pair in read_pairs(*paths) if seen.add(*pair))


def split(paths: tuple[str, str], sizes: dict[str, int]) -> dict[str, list[tuple[str, str]]]:
    """Returns the held-out sets by name, and the other pairs as "train".

    Raises:
        InputError: there are too few pairs.
    """
    keys = array("Q"), array("Q")
    for pair in distinct_pairs(paths):
        for column, sentence in zip(keys, pair, strict=True):
            column.append(sentence_key(sentence))
    members = {name: chosen.tolist() for name, chosen in hold_out(*keys, sizes).items()}
    splits: dict[str, list[tuple[str, str]]] = {name: [] for name in (*members, "train")}
    for number, pair in enumerate(distinct_pairs(paths)):
        name = next((name for name, chosen in members.items() if chosen[number]), "train")
        splits[name].append(pair)
    return splits


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", help="source text SOMETHING.LANG, one sentence per line")
    parser.add_argument("target", help="target text SOMETHING.LANG")
    parser.add_argument("--output", type=Path, required=True, help="folder of the files SPLIT.LANG")
    parser.add_argument(
        "--train", type=int, default=0, help="most pairs of train (default: 0, all)"
    )
    parser.add_argument("--valid", type=int, default=2000, help="pairs (default: 2000)")
    parser.add_argument("--test", type=int, default=2000, help="pairs (default: 2000)")
    args = parser.parse_args()
    paths = (args.source, args.target)
    endings = [Path(path).suffix for path in paths]
    if min(args.train, args.valid, args.test) < 0 or endings[0] == endings[1]:
        raise InputError("numbers of pairs can't be negative, and the files' endings must differ")
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
