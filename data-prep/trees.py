"""Constituency trees: cleans treebanks, converts trees to sequences for a model, and back.

    trees.py clean wsj.mrg.gz --output wsj.trees
    trees.py linearize train.trees --source train.words --target train.symbols
    trees.py restore --source test.words --target test.symbols --output test.trees
    trees.py split TREEBANK3 --output wsj

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
import sys
from collections.abc import Iterator
from pathlib import Path

import checkout  # noqa: F401

from vaswani_plugin.errors import UserError, run
from vaswani_plugin.text.linearization import linearize, restore
from vaswani_plugin.text.lines import read_pairs
from vaswani_plugin.text.outputs import check_outputs, write_atomically
from vaswani_plugin.text.trees import BadTree, Tree, clean, leaves, read_trees, to_line

SUFFIXES = (".mrg", ".ptb", ".tree", ".trees", ".clean")
# The standard splits for results on the Penn Treebank (Collins 1997).
WSJ_SECTIONS = {"train": range(2, 22), "valid": range(22, 23), "test": range(23, 24)}
# Where the sections can be below the given folder: as the LDC ships it (LDC99T42), or a subfolder.
WSJ_PLACES = ("parsed/mrg/wsj", "mrg/wsj", "wsj", ".")


class BadTrees:
    """Handles bad trees: the first one ends the command, or they are skipped and counted."""

    SHOWN = 5

    def __init__(self, skip: bool) -> None:
        self.skip = skip
        self.count = 0

    def __call__(self, message: str) -> None:
        """Raises UserError, or counts the tree and prints the first few messages on stderr."""
        if not self.skip:
            raise UserError(f"{message} (mend it, or leave bad trees out with --skip-bad)")
        self.count += 1
        if self.count <= self.SHOWN:
            print(f"bad tree left out: {message}", file=sys.stderr)


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    about = {
        "clean": "remove empty elements and function labels",
        "linearize": "convert trees to words and symbols",
        "restore": "convert words and symbols to trees",
        "split": "extract the Wall Street Journal's three sets",
    }
    for name, help_text in about.items():
        command = commands.add_parser(name, help=help_text, allow_abbrev=False)
        add = command.add_argument
        if name in ("clean", "linearize"):
            add("input", nargs="+", help="treebank files or folders; - for stdin")
        if name == "split":
            add("treebank", help="the folder of the Penn Treebank")
            add("--output", required=True, metavar="DIR", help="folder for *.trees")
        if name in ("linearize", "restore"):
            add("--source", required=True, metavar="FILE", help="the words")
            add("--target", required=True, metavar="FILE", help="the symbols")
        if name == "linearize":
            add("--keep-tags", action="store_true", help="write a word as its tag, not as XX")
            closings = "write closing brackets as )NP, not as )"
            add("--label-closings", action="store_true", help=closings)
        if name == "restore":
            tags = "file of trees that give the words' tags"
            add("--tags-from", metavar="TREES", help=tags)
        if name in ("clean", "restore"):
            add("--output", default="-", help="file (default: standard output)")
        add("--skip-bad", action="store_true", help="skip bad trees, and count them")
    return parser.parse_args()


def tree_files(paths: list[str]) -> list[Path]:
    """Lists the files that arguments name; a folder means all treebank files below it, sorted.

    Raises:
        UserError: a folder has no such files.
    """
    found = []
    for path in map(Path, paths):
        if not path.is_dir():
            found.append(path)
            continue
        names = sorted(p for p in path.rglob("*") if p.name.removesuffix(".gz").endswith(SUFFIXES))
        below = [p for p in names if p.is_file()]
        if not below:
            raise UserError(f"{path}: no treebank files below it ({', '.join(SUFFIXES)} or .gz)")
        found += below
    return found


def wsj_files(folder: str, split: str) -> list[Path]:
    """Lists the files of a split's sections, in order.

    Args:
        folder: of the Penn Treebank, or one between it and the sections (02, 03, ...).
        split: a key of `WSJ_SECTIONS`.

    Raises:
        UserError: a section is missing, or has no .mrg files.
    """
    places = [Path(folder) / place for place in WSJ_PLACES]
    wsj = next((place for place in places if (place / "23").is_dir()), None)
    if wsj is None:
        raise UserError(
            f"{folder}: no sections 02 to 23 in it or in {WSJ_PLACES[0]} below it; give the "
            "folder of the Penn Treebank (LDC99T42)"
        )
    files = []
    for section in WSJ_SECTIONS[split]:
        place = wsj / f"{section:02}"
        found = sorted([*place.glob("*.mrg"), *place.glob("*.mrg.gz")])
        if not found:
            raise UserError(f"{place}: no .mrg files of section {section:02} of the {split} set")
        files += found
    return files


def write_cleaned(files: list[Path], output: str | Path, bad: BadTrees) -> None:
    """Writes the cleaned trees, one a line; the file appears when it is complete."""
    count = empty = 0
    with write_atomically(output) as write:
        for path in files:
            for tree in read_trees(path, bad):
                kept = clean(tree)
                if kept is None:
                    empty += 1
                    continue
                write(to_line(kept))
                count += 1
    place = f" to {output}" if str(output) != "-" else ""
    left_out = f"{bad.count:,} bad trees left out, {empty:,} without words"
    print(f"{count:,} trees{place}, {left_out}", file=sys.stderr)


def write_sequences(args: argparse.Namespace, bad: BadTrees) -> None:
    """Runs the command `linearize`."""
    check_outputs("--source and --target", [args.source, args.target], [])
    count = 0
    with write_atomically(args.source) as put_words, write_atomically(args.target) as put_symbols:
        for words, symbols in sequences(args, bad):
            put_words(" ".join(words))
            put_symbols(" ".join(symbols))
            count += 1
    print(f"{count:,} trees, {bad.count:,} bad trees left out", file=sys.stderr)


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
    gold: Iterator[Tree] | None = read_trees(args.tags_from) if args.tags_from else None
    for number, (line, symbols) in enumerate(read_pairs(args.source, args.target), 1):
        words, tags = line.split(), None
        if gold is not None:
            tree = next(gold, None)
            tags = tree and [leaf.tag for leaf in leaves(tree)]
            if tags is None or len(tags) != len(words):
                raise UserError(
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
        write_cleaned(tree_files(args.input), args.output, bad)
    elif args.command == "linearize":
        write_sequences(args, bad)
    elif args.command == "restore":
        count = 0
        with write_atomically(args.output) as write:
            for line in restored(args, bad):
                write(line)
                count += 1
        print(f"{count:,} lines, {bad.count:,} of them empty for bad sequences", file=sys.stderr)
    else:
        parts = {split: wsj_files(args.treebank, split) for split in WSJ_SECTIONS}
        for split, files in parts.items():
            write_cleaned(files, Path(args.output) / f"{split}.trees", BadTrees(args.skip_bad))


if __name__ == "__main__":
    run(main)
