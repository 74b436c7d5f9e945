"""Constituency trees: cleans treebanks, converts trees to sequences for a model.

    trees.py clean wsj.mrg.gz --output wsj.trees
    trees.py linearize train.trees --source train.words --target train.symbols
    trees.py split TREEBANK3 --output wsj

Inputs are Penn Treebank bracketings, plain or .gz, one per line or pretty-printed; a folder is read
with all treebank files below it. Outputs have a tree a line. Errors name the file and line.

`clean` removes empty elements, function labels, indices and gapping, and names the root TOP.
`linearize` writes the words of a tree, and its symbols as `(TOP (S (NP XX XX ) (VP XX ) ) )`.
`split` finds the Wall Street Journal in the Penn Treebank's folders and writes the cleaned sections
02-21 to train.trees, 22 to valid.trees, 23 to test.trees.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from checkout import Flags, run

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.outputs import check_outputs, write_atomically
from vaswani_plugin.text.linearization import linearize
from vaswani_plugin.text.trees import BadTree, clean, read_trees, to_line

SUFFIXES = (".mrg", ".ptb", ".tree", ".trees", ".clean")
# The standard splits for results on the Penn Treebank (Collins 1997).
WSJ_SECTIONS = {"train": range(2, 22), "valid": range(22, 23), "test": range(23, 24)}
# Where the sections can be below the given folder: as the LDC ships it (LDC99T42), or a subfolder.
WSJ_PLACES = ("parsed/mrg/wsj", "mrg/wsj", "wsj", ".")


def tree_files(paths: list[str]) -> list[Path]:
    """Lists the files that arguments name; a folder means all treebank files below it, sorted."""
    files = []
    for path in map(Path, paths):
        below = path.rglob("*") if path.is_dir() else ()
        named = sorted(p for p in below if p.name.removesuffix(".gz").endswith(SUFFIXES))
        if path.is_dir() and not named:
            raise UserError(f"{path}: no treebank files below it ({', '.join(SUFFIXES)} or .gz)")
        files += named or [path]
    return files


def wsj_files(folder: str, split: str) -> list[Path]:
    """Lists the files of a split's sections, in order.

    `folder` is that of the Penn Treebank, or one between it and the sections (02, 03, ...).
    """
    wsj = next((w for at in WSJ_PLACES if ((w := Path(folder) / at) / "23").is_dir()), None)
    if wsj is None:
        where = f"no sections 02 to 23 in it or in {WSJ_PLACES[0]} below it"
        raise UserError(f"{folder}: {where}; give the folder of the Penn Treebank (LDC99T42)")
    files = []
    for section in WSJ_SECTIONS[split]:
        place = wsj / f"{section:02}"
        files += (inside := sorted([*place.glob("*.mrg"), *place.glob("*.mrg.gz")]))
        if not inside:
            raise UserError(f"{place}: no .mrg files of section {section:02} of the {split} set")
    return files


def write_cleaned(files: list[Path], output: str | Path) -> None:
    """Writes the cleaned trees, one a line; the file appears when it is complete."""
    check_outputs("--output", [output], files)
    counts = [0, 0]
    with write_atomically(output) as write:
        for tree in (clean(tree) for path in files for tree in read_trees(path)):
            counts[tree is None] += 1
            if tree is not None:
                write(to_line(tree))
    print("{}: {:,} trees, {:,} without words left out".format(output, *counts), file=sys.stderr)


def write_sequences(files: Iterable, source: Path, target: Path, *options: bool) -> None:
    """Writes the words and the symbols of the trees of files; the options are `linearize`'s."""
    with write_atomically(source) as put_words, write_atomically(target) as put_symbols:
        for path in files:
            for tree in read_trees(path):
                try:
                    words, symbols = linearize(tree, *options)
                except BadTree as error:
                    raise UserError(f"{path}: {to_line(tree)[:60]}: {error}") from error
                put_words(" ".join(words))
                put_symbols(" ".join(symbols))


def main(flags: Flags) -> None:
    commands = flags.add_subparsers(dest="command", required=True)
    add = commands.add_parser("clean", help="remove empty elements, function labels").add_argument
    add("input", nargs="+", help="treebank files or folders; - for stdin")
    add("--output", default="-", help="file (default: standard output)")
    add = commands.add_parser("linearize", help="convert trees to words and symbols").add_argument
    add("input", nargs="+", help="files of cleaned trees")
    add("--source", type=Path, required=True, metavar="FILE", help="the words")
    add("--target", type=Path, required=True, metavar="FILE", help="the symbols")
    add = commands.add_parser("split", help="extract the Journal's three sets").add_argument
    add("treebank", help="the folder of the Penn Treebank")
    add("--output", type=Path, required=True, metavar="DIR", help="folder for *.trees")
    args = flags.parse_args()
    if args.command == "clean":
        write_cleaned(tree_files(args.input), args.output)
    elif args.command == "linearize":
        files = tree_files(args.input)
        check_outputs("--source and --target", [args.source, args.target], files)
        write_sequences(files, args.source, args.target)
    else:
        parts = {split: wsj_files(args.treebank, split) for split in WSJ_SECTIONS}
        for split, files in parts.items():
            write_cleaned(files, args.output / f"{split}.trees")


if __name__ == "__main__":
    run(main, __doc__)
