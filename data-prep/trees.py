"""Constituency trees: cleans treebanks, converts trees to sequences for a model, and back.

    trees.py clean wsj.mrg.gz --output wsj.trees
    trees.py linearize train.trees --source train.words --target train.symbols
    trees.py restore --source test.words --target test.symbols --output test.trees
    trees.py split TREEBANK3 --output wsj
    trees.py statistics train.trees

Inputs are Penn Treebank bracketings, plain or .gz, one per line or pretty-printed; a folder is read
with all treebank files below it. Outputs have one tree per line.

`clean` removes empty elements, function labels, indices and gapping, and names the root TOP.
`linearize` writes the words of a tree, and its symbols as `(TOP (S (NP XX XX ) (VP XX ) ) )`.
`split` finds the Wall Street Journal in the Penn Treebank's folders and writes the cleaned sections
02-21 to train.trees, 22 to valid.trees, 23 to test.trees.

On a bad tree the command stops, with its file and line; --skip-bad skips bad trees and counts them.
`restore --skip-bad` writes an empty line for a bad sequence, so that the lines still correspond.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import checkout  # noqa: F401

from vaswani_plugin.text.corpus_io import read_pairs
from vaswani_plugin.text.linearization import linearize, restore
from vaswani_plugin.text.messages import InputError, run
from vaswani_plugin.text.output_files import check_outputs, write_atomically
from vaswani_plugin.text.tree_cleaning import clean
from vaswani_plugin.text.tree_statistics import as_text, statistics
from vaswani_plugin.text.treebanks import WSJ_SECTIONS, read_all, tree_files, wsj_files
from vaswani_plugin.text.trees import BadTree, Tree, leaves, read_trees, to_line


class BadTrees:
    """Handles bad trees: the first one ends the command, or they are skipped and counted."""

    SHOWN = 5

    def __init__(self, skip: bool) -> None:
        self.skip = skip
        self.count = 0

    def __call__(self, message: str) -> None:
        """Raises InputError, or counts the tree and prints the first few messages on stderr."""
        if not self.skip:
            raise InputError(f"{message} (mend it, or leave bad trees out with --skip-bad)")
        self.count += 1
        if self.count <= self.SHOWN:
            print(f"bad tree left out: {message}", file=sys.stderr)

    def report(self, written: int, what: str) -> None:
        """Prints a command's last line on stderr: the numbers of trees written and left out."""
        print(f"{written:,} {what}, {self.count:,} bad trees left out", file=sys.stderr)


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, help_text: str, inputs: bool = True) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help_text, allow_abbrev=False)
        if inputs:
            added.add_argument("input", nargs="+", help="treebank files or folders; - for stdin")
        added.add_argument("--skip-bad", action="store_true", help="skip bad trees, and count them")
        return added

    cleaning = command("clean", "remove empty elements and function labels")
    cleaning.add_argument("--output", default="-", help="file (default: standard output)")
    making = command("linearize", "convert trees to words and symbols")
    making.add_argument("--source", required=True, metavar="FILE", help="the words")
    making.add_argument("--target", required=True, metavar="FILE", help="the symbols")
    making.add_argument(
        "--keep-tags", action="store_true", help="write a word as its tag, not as XX"
    )
    making.add_argument(
        "--label-closings", action="store_true", help="write closing brackets as )NP, not as )"
    )
    restoring = command("restore", "convert words and symbols to trees", inputs=False)
    restoring.add_argument("--source", required=True, metavar="FILE", help="the words")
    restoring.add_argument("--target", required=True, metavar="FILE", help="the symbols")
    restoring.add_argument(
        "--tags-from", metavar="TREES", help="file of trees that give the words' tags"
    )
    restoring.add_argument("--output", default="-", help="file (default: standard output)")
    splitting = command("split", "extract the Wall Street Journal's three sets", False)
    splitting.add_argument("treebank", help="the folder of the Penn Treebank")
    splitting.add_argument("--output", required=True, metavar="DIR", help="folder for *.trees")
    counting = command("statistics", "count trees, words, labels, lengths")
    counting.add_argument(
        "--format", choices=("text", "json"), default="text", help="(default: text)"
    )
    return parser.parse_args()


def cleaned(trees: Iterator[Tree]) -> Iterator[Tree]:
    """Yields the cleaned trees; trees without words are left out."""
    return (kept for tree in trees if (kept := clean(tree)))


def write_trees(trees: Iterator[Tree], output: str | Path, bad: BadTrees) -> None:
    """Writes one tree a line; the file appears when it is complete."""
    count = 0
    with write_atomically(output) as write:
        for tree in trees:
            write(to_line(tree))
            count += 1
    bad.report(count, f"trees to {output}" if str(output) != "-" else "trees")


def write_sequences(args: argparse.Namespace, bad: BadTrees) -> None:
    """Runs the command `linearize`."""
    check_outputs("--source and --target", [args.source, args.target], [])
    count = 0
    with write_atomically(args.source) as put_words, write_atomically(args.target) as put_symbols:
        for words, symbols in sequences(args, bad):
            put_words(" ".join(words))
            put_symbols(" ".join(symbols))
            count += 1
    bad.report(count, "trees")


def sequences(args: argparse.Namespace, bad: BadTrees) -> Iterator[tuple[list[str], list[str]]]:
    """Yields the words and symbols of each tree."""
    for path in tree_files(args.input):
        for tree in read_trees(path, bad):
            try:
                yield linearize(tree, args.keep_tags, args.label_closings)
            except BadTree as error:
                bad(f"{path}: {to_line(tree)[:60]}: {error}")


def restored(args: argparse.Namespace, bad: BadTrees) -> Iterator[str]:
    """Yields the output lines of the command `restore`."""
    gold = read_all([Path(args.tags_from)]) if args.tags_from else None
    for number, (line, symbols) in enumerate(read_pairs(args.source, args.target), 1):
        words, tags = line.split(), None
        if gold is not None:
            tree = next(gold, None)
            tags = tree and [leaf.tag for leaf in leaves(tree)]
            if tags is None or len(tags) != len(words):
                raise InputError(
                    f"{args.tags_from}: tree {number} hasn't the words of {args.source}:{number}"
                )
        try:
            yield to_line(restore(symbols.split(), words, tags))
        except BadTree as error:
            bad(f"{args.target}:{number}: {error}")
            yield ""


def main() -> None:
    """Command line."""
    args = parse_arguments()
    bad = BadTrees(args.skip_bad)
    if args.command == "clean":
        write_trees(cleaned(read_all(tree_files(args.input), bad)), args.output, bad)
    elif args.command == "linearize":
        write_sequences(args, bad)
    elif args.command == "restore":
        count = 0
        with write_atomically(args.output) as write:
            for line in restored(args, bad):
                write(line)
                count += 1
        print(f"{count:,} lines, {bad.count:,} of them empty for bad sequences", file=sys.stderr)
    elif args.command == "split":
        parts = {split: wsj_files(args.treebank, split) for split in WSJ_SECTIONS}
        for split, files in parts.items():
            write_trees(cleaned(read_all(files, bad)), Path(args.output) / f"{split}.trees", bad)
    else:
        result = statistics(read_all(tree_files(args.input), bad)) | {"bad_trees": bad.count}
        print(json.dumps(result) if args.format == "json" else as_text(result))


if __name__ == "__main__":
    run(main)
