"""`vaswani parse`: a tree for each sentence with a bundle of recipes/parsing.sh.

A sentence is a line of words between blanks, as treebanks divide them ("do n't", a comma apart).
Every line gives a line. It is empty for an empty sentence and, without the constraint, for an
output that is no tree.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from vaswani_plugin.cli import _flags as flags
from vaswani_plugin.cli import _lines as lines
from vaswani_plugin.decoding import PARSER_DECODING

if TYPE_CHECKING:
    from vaswani_plugin.inference.parsing import ParsedSentence, Parser

HELP = "parse tokenized sentences into constituency trees with a bundle"
EXAMPLE = "vaswani parse --model work/parsing/model --pretty < sentences"
BUNDLE = "a bundle, as recipes/parsing.sh makes it"
DRAW = "also draw the trees (.svg, .png, .pdf); of line 2 into FILE-2, and so on"
UNCONSTRAINED = "let the model write what is no tree, and count such sentences"
FORMAT = "json: an object a line with line, tree (null for none), symbols and score"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    add("inputs", nargs="*", metavar="FILE", help="a sentence a line, plain or .gz (default: -)")
    add("--model", type=Path, required=True, metavar="DIR", help=BUNDLE)
    lines.add_output(parser)
    add("--pretty", action="store_true", help="trees over several lines, indented")
    add("--draw", type=Path, metavar="FILE", help=DRAW)
    add("--unconstrained", action="store_true", help=UNCONSTRAINED)
    beam = PARSER_DECODING["beam"]
    add("--beam", type=flags.count, help=f"width (default: that of the bundle, else {beam})")
    flags.add_length_penalty(parser, PARSER_DECODING["lenpen"])
    add("--format", choices=["text", "json"], default="text", help=FORMAT)
    lines.add_buffer(parser, 256, "parsing")
    flags.add_batch_tokens(parser, 2048, "units read")
    flags.add_processor(parser)


def run(args: argparse.Namespace) -> int:
    """Parse; returns 0.

    Raises:
        ValueError: flags that don't fit, a bundle or a line that can't be used.
        OSError: a file can't be read or written.
    """
    if args.pretty and args.format == "json":
        raise ValueError("--pretty and --format json exclude each other; drop one")
    from vaswani_plugin.interchange.parsing import load_parser

    parser = load_parser(args.model, device=flags.processor(args))
    inputs = args.inputs or ["-"]
    found = parser.stream(
        read(inputs, parser),
        buffer=lines.buffer_size(args, inputs),
        beam=args.beam,
        length_penalty=args.lenpen,
        unconstrained=args.unconstrained,
        batch_tokens=args.batch_tokens,
    )
    total = malformed = 0
    with lines.opened(args.output) as write, lines.progress(inputs, args.output) as bar:
        for number, sentence in enumerate(found, start=1):
            total += bool(sentence.words)
            malformed += bool(sentence.words) and sentence.tree is None
            _draw(number, sentence, args.draw)
            write([_shown(number, sentence, args)])
            bar.update()
    if args.unconstrained:
        print(f"vaswani parse: {malformed:,} of {total:,} sentences got no tree", file=sys.stderr)
    return 0


def read(paths: list[str], parser: "Parser") -> Iterator[str]:
    """Yields the lines of files (`-`: standard input).

    Raises:
        InputError: a line can't be read, or has too many units; names it.
        OSError: a file can't be read.
    """
    from vaswani_plugin.text.messages import InputError

    for place, line in lines.read_raw(paths):
        if (units := parser.count_tokens(line)) > parser.longest_source:
            raise InputError(
                f"{place}: the line has {units} units, the model takes {parser.longest_source}: "
                f"divide it"
            )
        yield line


def _draw(number: int, sentence: "ParsedSentence", path: Path | None) -> None:
    if path is not None and sentence.tree is not None:
        from vaswani_plugin.analysis.tree_drawing import draw_tree

        draw_tree(sentence.tree, path if number == 1 else path.with_stem(f"{path.stem}-{number}"))


def _shown(number: int, sentence: "ParsedSentence", args: argparse.Namespace) -> str:
    if args.format == "json":
        symbols = sentence.parses[0].symbols if sentence.parses else []
        entry = {"line": number, "tree": sentence.bracketing or None, "symbols": symbols}
        return json.dumps(entry | {"score": sentence.score})
    if args.pretty and sentence.tree is not None:
        from vaswani_plugin.text.tree_layout import pretty

        return pretty(sentence.tree)
    return sentence.bracketing
