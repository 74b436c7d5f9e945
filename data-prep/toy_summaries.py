#!/usr/bin/env python3
"""Write made-up articles with summaries: {train,valid,test}.jsonl, from a grammar and a seed.

An article is some English sentences of the toy corpus; one of them begins with "Above all:", and it
is the summary, without these words. A held-out article has a second summary: the sentence as it
stands. No sentence occurs twice. Lines are as in SciTLDR: `source`, sentences, and `target`,
summaries. Example: toy_summaries.py --output work/toy --train 300 --seed 1
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import checkout  # noqa: F401
import toy_sentences
from toy_translation import DEFAULT_SIZES, SPLITS, distinct_pairs

from vaswani_plugin.text.messages import InputError, run
from vaswani_plugin.text.output_files import write_atomically

SHORTEST, LONGEST = 2, 4
MARK = "Above all: "


def examples(count: int, seed: int) -> Iterator[tuple[list[str], list[str]]]:
    """Yields the sentences of an article, and its two summaries.

    Raises InputError if the grammar has too few sentences.
    """
    sentences = (
        english for english, _ in distinct_pairs(toy_sentences.pairs(seed), count * LONGEST)
    )
    rng = Random(seed)
    for _ in range(count):
        # Only random() returns the same numbers in every version of Python.
        length = SHORTEST + int(rng.random() * (LONGEST - SHORTEST + 1))
        article = [next(sentences) for _ in range(length)]
        place = int(rng.random() * length)
        summary = article[place]
        article[place] = MARK + summary
        yield article, [summary, article[place]]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--output", type=Path, required=True, help="folder of the files to write")
    for split, size in DEFAULT_SIZES.items():
        parser.add_argument(
            f"--{split}", type=int, default=size, metavar="N", help=f"articles (default: {size})"
        )
    parser.add_argument("--seed", type=int, default=1, help="random seed (default: 1)")
    args = parser.parse_args()
    sizes = {split: getattr(args, split) for split in SPLITS}
    if min(sizes.values()) < 1:
        raise InputError("--train, --valid and --test: give at least 1 each")
    made = examples(sum(sizes.values()), args.seed)
    for split, size in sizes.items():
        with write_atomically(args.output / f"{split}.jsonl") as write:
            for _ in range(size):
                source, target = next(made)
                references = target if split != "train" else target[:1]
                write(json.dumps({"source": source, "target": references}))
    print(f"{args.output}: " + ", ".join(f"{split} {size}" for split, size in sizes.items()))


if __name__ == "__main__":
    run(main)
