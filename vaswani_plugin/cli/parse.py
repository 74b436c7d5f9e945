"""`vaswani parse`: a tree for each sentence with a bundle of recipes/parsing.sh.

A sentence is a line of words between blanks, as treebanks divide them ("do n't", a comma apart).
Every line gives a line. It is empty for an empty sentence and, without the constraint, for an
output that is no tree.
"""

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vaswani_plugin.cli import _flags as flags
from vaswani_plugin.decoding import PARSER_DECODING
from vaswani_plugin.text.lines import LocatedLines
from vaswani_plugin.text.outputs import check_outputs, line_progress, open_output, write_atomically
from vaswani_plugin.text.trees import unescape_brackets

if TYPE_CHECKING:
    from vaswani_plugin.inference.parsing import ParsedSentence

HELP = "parse tokenized sentences into constituency trees with a bundle"
EXAMPLE = "vaswani parse --model work/parsing/model --pretty < sentences"
BUNDLE = "the bundle: the folder model/ of recipes/parsing.sh"
DRAW = "also draw the trees by svgling; the tree of line 2 goes to FILE-2.svg, and so on"
UNCONSTRAINED = "allow outputs that are no tree; the number of such sentences is printed at the end"
FORMAT = "json: one object per line with line, tree (null if there is none), symbols and score"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    flags.add_inputs(parser, "a tokenized sentence")
    flags.add_model(parser, BUNDLE)
    flags.add_output(parser)
    add("--pretty", action="store_true", help="print each tree over several lines, indented")
    add("--draw", type=Path, metavar="FILE.svg", help=DRAW)
    add("--unconstrained", action="store_true", help=UNCONSTRAINED)
    flags.add_beam(parser, PARSER_DECODING["beam"])
    flags.add_length_penalty(parser, PARSER_DECODING["lenpen"])
    flags.add_format(parser, FORMAT)
    flags.add_buffer(parser, 256)
    flags.add_batch_tokens(parser, 2048, "source subwords")
    flags.add_device(parser)


def run(args: argparse.Namespace) -> int:
    """Parse; returns 0.

    Raises:
        ValueError: flags that don't fit, a bundle or a line that can't be used.
        OSError: a file can't be read or written.
    """
    if args.pretty and args.format == "json":
        raise ValueError("--pretty and --format json exclude each other; drop one")
    inputs = args.inputs or ["-"]
    check_outputs("--output", [args.output], inputs)
    if args.draw is not None:
        _check_drawing(args.draw)
    from vaswani_plugin.inference.parsing import Parser
    from vaswani_plugin.inference.texts import TextTooLong

    parser = Parser.from_pretrained(args.model, device=flags.chosen_device(args))
    lines = LocatedLines(inputs)
    found = parser.stream(
        lines,
        buffer=flags.buffer_size(args, inputs),
        beam=args.beam,
        length_penalty=args.lenpen,
        unconstrained=args.unconstrained,
        batch_tokens=args.batch_tokens,
    )
    total = malformed = 0
    with open_output(args.output) as write, line_progress(inputs, args.output) as bar:
        try:
            for number, sentence in enumerate(found, start=1):
                total += bool(sentence.words)
                malformed += bool(sentence.words) and not sentence.bracketing
                _draw(number, sentence, args.draw)
                write([_shown(number, sentence, args)])
                bar.update()
        except TextTooLong as error:
            raise ValueError(
                f"{lines.place(error.number)}: the line has {error.count} units, the model takes "
                f"{error.longest}: divide it"
            ) from error
    if args.unconstrained:
        print(f"vaswani parse: {malformed:,} of {total:,} sentences got no tree", file=sys.stderr)
    return 0


def _check_drawing(path: Path) -> None:
    if path.suffix != ".svg":
        raise ValueError(f"--draw {path}: trees are drawn as .svg, which a browser shows or prints")
    if not path.parent.is_dir():
        raise FileNotFoundError(2, "No such folder", str(path.parent))
    if importlib.util.find_spec("svgling") is None:
        raise ValueError("--draw needs svgling: pip install svgling")


def _draw(number: int, sentence: "ParsedSentence", path: Path | None) -> None:
    tree = sentence.tree if path is not None else None
    if path is None or tree is None:
        return
    import svgling

    try:
        for place in tree.treepositions("leaves"):
            tree[place] = unescape_brackets(tree[place])
        picture = svgling.draw_tree(tree, leaf_nodes_align=True).get_svg().tostring()
    except RecursionError:  # about 800 brackets deep: an untrained model writes such trees
        print(f"vaswani parse: line {number}: the tree is too deep to draw", file=sys.stderr)
        return
    with write_atomically(path if number == 1 else path.with_stem(f"{path.stem}-{number}")) as put:
        put(picture)


def _shown(number: int, sentence: "ParsedSentence", args: argparse.Namespace) -> str:
    if args.format == "json":
        symbols = sentence.parses[0].symbols if sentence.parses else []
        entry = {"line": number, "tree": sentence.bracketing or None, "symbols": symbols}
        return json.dumps(entry | {"score": sentence.score})
    if args.pretty and (tree := sentence.tree) is not None:
        try:
            return str(tree.pformat(margin=100))
        except RecursionError:
            return sentence.bracketing
    return sentence.bracketing
