#!/usr/bin/env python3
"""Write made-up constituency trees: {train,valid,test}.trees, from a grammar and a seed.

The grammar is Penn Treebank's in small: noun phrases with adjectives and prepositional phrases,
transitive and intransitive verbs, complement, relative and adverbial clauses, coordination. What a
prepositional phrase belongs to is decided by its preposition: "with a telescope" to the verb, "near
the river" to the noun. No sentence occurs twice.

Example: toy_trees.py --output work/toy --train 300 --seed 1
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from random import Random

import checkout  # noqa: F401

from vaswani_plugin.text.messages import InputError, run
from vaswani_plugin.text.output_files import write_atomically

DEFAULT_SIZES = {"train": 2000, "valid": 100, "test": 200}
# Right-hand sides with their weights. A symbol without right-hand sides is a tag; its words follow.
GRAMMAR: dict[str, list[tuple[float, str]]] = {
    "TOP": [(1, "S")],
    "S": [(6, "NP VP ."), (1, "ADVP , NP VP ."), (1, "SBARA , NP VP ."), (1, "PPV , NP VP .")],
    "CLAUSE": [(1, "NP VP")],
    "NP": [(6, "BASE"), (2, "BASE PPN"), (1, "BASE SBARR"), (1, "NP CC NP"), (2, "PRP")],
    "BASE": [(4, "DT NN"), (2, "DT JJ NN"), (1, "DT JJ JJ NN"), (1, "JJ NNS"), (1, "NNP")],
    "PPN": [(1, "INN BASE")],
    "PPV": [(1, "INV TOOL")],
    "TOOL": [(2, "DT NNT"), (1, "DT JJ NNT")],
    "VP": [(4, "VBD NP"), (2, "VBD NP PPV"), (2, "VBI"), (1, "VBI ADVP"), (1, "VBS SBART")],
    "SBART": [(1, "INT CLAUSE")],
    "SBARA": [(1, "INA CLAUSE")],
    "SBARR": [(2, "WHNP SVP"), (1, "WHNP SNP")],
    "SVP": [(1, "VP")],
    "SNP": [(1, "NP VPT")],
    "VPT": [(1, "VBD")],
    "WHNP": [(1, "WP")],
    "ADVP": [(2, "RB"), (1, "RBI RB")],
}
WORDS = {
    "DT": "the a every some this",
    "JJ": "old young tired clever quiet green small happy brave poor",
    "NN": "doctor sister farmer teacher child neighbor bird garden house river letter story",
    "NNS": "doctors sisters farmers teachers children neighbors birds letters stories",
    "NNP": "Anna Peter Maria Ahmed Yuki",
    "NNT": "telescope hammer knife spoon key ladder",
    "PRP": "she he they we",
    "VBD": "saw found bought painted visited remembered followed",
    "VBI": "slept laughed arrived waited sang",
    "VBS": "said thought knew believed",
    "INN": "of near behind",
    "INV": "with",
    "INT": "that",
    "INA": "because while before although",
    "WP": "who",
    "RB": "quickly quietly often yesterday",
    "RBI": "very rather",
    "CC": "and or",
    ",": ",",
    ".": ".",
}
# Symbols of the grammar that are written as a less specific symbol, as in a treebank.
WRITTEN = {"NNT": "NN", "VBI": "VBD", "VBS": "VBD", "RBI": "RB", "CLAUSE": "S", "TOOL": "NP"}
WRITTEN |= {"INN": "IN", "INV": "IN", "INT": "IN", "INA": "IN", "PPN": "PP", "PPV": "PP"}
WRITTEN |= {"SBART": "SBAR", "SBARA": "SBAR", "SBARR": "SBAR", "SVP": "S", "SNP": "S"}
WRITTEN |= {"BASE": "NP", "VPT": "VP"}
DEEPEST = 12


def pick(weights: list[float], rng: Random) -> int:
    """Draws an index by weight, with random() only: it is the same in every version of Python."""
    place = rng.random() * sum(weights)
    for number, weight in enumerate(weights):
        place -= weight
        if place < 0:
            return number
    return len(weights) - 1


def derive(symbol: str, rng: Random, depth: int = 0) -> str:
    """Derives a bracketing of the symbol; at great depth, by the first and simplest rule only."""
    label = WRITTEN.get(symbol, symbol)
    if symbol in WORDS:
        words = WORDS[symbol].split()
        return f"({label} {words[pick([1.0] * len(words), rng)]})"
    rules = GRAMMAR[symbol]
    chosen = 0 if depth > DEEPEST else pick([weight for weight, _ in rules], rng)
    right = rules[chosen][1].split()
    parts = " ".join(derive(part, rng, depth + 1) for part in right)
    # A noun phrase that consists of a BASE alone gets no second pair of brackets.
    return parts if right == ["BASE"] else f"({label} {parts})"


def distinct_trees(count: int, seed: int) -> Iterator[str]:
    """Yields `count` bracketings, no two of them equal."""
    rng, seen = Random(seed), set()
    while len(seen) < count:
        tree = derive("TOP", rng)
        if tree not in seen:
            seen.add(tree)
            yield tree


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="folder of the files to write")
    for split, size in DEFAULT_SIZES.items():
        parser.add_argument(
            f"--{split}", type=int, default=size, metavar="N", help=f"trees (default: {size})"
        )
    parser.add_argument("--seed", type=int, default=1, help="random seed (default: 1)")
    args = parser.parse_args()
    sizes = {split: getattr(args, split) for split in DEFAULT_SIZES}
    if not 1 <= min(sizes.values()) <= max(sizes.values()) <= 1_000_000:
        raise InputError("--train, --valid and --test: give from 1 to 1,000,000 each")
    trees = distinct_trees(sum(sizes.values()), args.seed)
    for split, size in sizes.items():
        with write_atomically(args.output / f"{split}.trees") as write:
            for _ in range(size):
                write(next(trees))


if __name__ == "__main__":
    run(main)
