#!/usr/bin/env python3
"""Write a made-up English-German corpus: {train,valid,test}.{en,de}, from a grammar and a seed.

The German follows from the English: no sentence has two translations, and no sentence of the
validation or test set, English or German, occurs in the training set. The text has verb-second and
verb-final order, separable verbs, agreement, declension, compounds, numbers and dates; it is cased,
with punctuation. --language fr writes a simpler English-French corpus. Example:
toy_translation.py --output work/toy --train 6000 --seed 1
"""

import argparse
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import checkout  # noqa: F401
import toy_french
import toy_sentences

from vaswani_plugin.text.messages import InputError, run
from vaswani_plugin.text.output_files import write_atomically

Pair = tuple[str, str]
GRAMMARS = {"de": toy_sentences.pairs, "fr": toy_french.pairs}
SPLITS = ("test", "valid", "train")
DEFAULT_SIZES = {"train": 6000, "valid": 300, "test": 500}
# Number of repeats in a row after which the grammar counts as exhausted. At 100,000 pairs, one draw
# in twenty is a repeat, so 10,000 repeats in a row do not happen by chance.
_PATIENCE = 10_000


def distinct_pairs(stream: Iterable[Pair], count: int) -> list[Pair]:
    """Returns the first `count` pairs of `stream` in which both sides are new.

    Raises InputError if the stream ends or only repeats pairs, and AssertionError if an English
    sentence has two translations.
    """
    chosen: dict[str, str] = {}
    foreign_seen: set[str] = set()
    repeats = 0
    for english, foreign in stream:
        known = chosen.get(english, foreign)
        assert known == foreign, f"two translations of {english!r}: {known!r} and {foreign!r}"
        if english in chosen or foreign in foreign_seen:
            repeats += 1
            if repeats > _PATIENCE:
                break
            continue
        repeats = 0
        chosen[english] = foreign
        foreign_seen.add(foreign)
        if len(chosen) == count:
            return list(chosen.items())
    raise InputError(
        f"the grammar gave only {len(chosen)} of {count} distinct pairs: ask for fewer"
    )


def make_corpus(sizes: dict[str, int], seed: int, language: str = "de") -> dict[str, list[Pair]]:
    """Makes disjoint splits (name: pairs) of the given sizes; the same seed gives the same text.

    The test set is drawn first, so it does not depend on the size of the training set.
    """
    drawn = iter(distinct_pairs(GRAMMARS[language](seed), sum(sizes.values())))
    corpus = {split: list(islice(drawn, sizes[split])) for split in SPLITS}
    for side in (0, 1):
        trained = {pair[side] for pair in corpus["train"]}
        held_out = {pair[side] for split in ("valid", "test") for pair in corpus[split]}
        assert not trained & held_out, "a held-out sentence occurs in the training set"
    return corpus


def write_corpus(corpus: dict[str, list[Pair]], output: Path, language: str = "de") -> None:
    """Writes SPLIT.en and SPLIT.LANGUAGE into a folder: all of them, or none after an error."""
    with ExitStack() as stack:
        for split, chosen in corpus.items():
            for side, name in enumerate(("en", language)):
                write = stack.enter_context(write_atomically(output / f"{split}.{name}"))
                for pair in chosen:
                    write(pair[side])


def positive_int(text: str) -> int:
    """Reads a number of sentences; raises ArgumentTypeError below 1, ValueError for a word."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is no number of sentences: give at least 1")
    return value


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--output", type=Path, required=True, help="folder of the files to write")
    for split, size in DEFAULT_SIZES.items():
        what = f"pairs (default: {size})"
        parser.add_argument(f"--{split}", type=positive_int, default=size, metavar="N", help=what)
    parser.add_argument("--seed", type=int, default=1, help="random seed (default: 1)")
    parser.add_argument(
        "--language", choices=GRAMMARS, default="de", help="target language (default: de)"
    )
    args = parser.parse_args()
    sizes = {split: getattr(args, split) for split in SPLITS}
    corpus = make_corpus(sizes, args.seed, args.language)
    write_corpus(corpus, args.output, args.language)
    counts = ", ".join(f"{split} {len(chosen)}" for split, chosen in corpus.items())
    print(f"toy_translation.py: wrote {args.output} ({counts} pairs)")


if __name__ == "__main__":
    run(main)
