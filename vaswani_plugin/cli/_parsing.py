"""What `vaswani parse` does once its flags are read: sentences in, trees out."""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from vaswani_plugin.cli._flags import (
    processor,
)
from vaswani_plugin.cli._lines import buffer_size, opened, progress, read_raw
from vaswani_plugin.cli._tree_drawing import draw_tree, pretty
from vaswani_plugin.decoding import PARSER_DECODING
from vaswani_plugin.inference.batching import batches_by_length, in_buffers
from vaswani_plugin.inference.engine import Decoded
from vaswani_plugin.interchange.bundle import FairseqBundle
from vaswani_plugin.interchange.translation import FairseqEngine
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.text.corpus_io import InputError
from vaswani_plugin.text.linearization import restore
from vaswani_plugin.text.settings import TreeSettings
from vaswani_plugin.text.treebank_coding import words_of
from vaswani_plugin.text.trees import BadTree, Tree, to_line


@dataclass(frozen=True)
class Sentence:
    """A line: its number, from 1 on; its words; the units that the model reads."""

    number: int
    words: list[str]
    units: str


def run(args: argparse.Namespace) -> int:
    """Parse; returns 0.

    Raises:
        ValueError: flags that don't fit, a bundle or a line that can't be used.
        OSError: a file can't be read or written.
    """
    parser = Parser(FairseqBundle.load(args.model, TreeSettings), args)
    inputs = args.inputs or ["-"]
    with opened(args.output) as write, progress(inputs, args.output) as bar:
        for sentences in in_buffers(parser.read(inputs), buffer_size(args, inputs)):
            write(list(parser.parse(sentences)))
            bar.update(len(sentences))
    if args.unconstrained:
        print(
            f"vaswani parse: {parser.malformed:,} of {parser.total:,} sentences got no tree",
            file=sys.stderr,
        )
    return 0


class Parser:
    """From lines to output lines; counts sentences, and those that got no tree.

    Args:
        bundle: of a parser.
        args: the command's flags.

    Raises:
        ValueError: the model can't be used.
        OSError: it can't be read.
    """

    def __init__(self, bundle: FairseqBundle, args: argparse.Namespace) -> None:
        model, task = bundle.load_model(unconstrained=args.unconstrained)
        self.pipeline = bundle.pipeline
        self.engine = FairseqEngine(model, task, processor(args), torch.float32)
        beam = args.beam or bundle.pipeline.settings.beam or PARSER_DECODING["beam"]
        given = {"beam": beam, "lenpen": args.lenpen, "nbest": 1}
        self.options = SearchOptions(**{**PARSER_DECODING, **given})
        self.args = args
        self.total = self.malformed = 0

    def read(self, paths: list[str]) -> Iterator[Sentence]:
        """Yields the sentences of files (`-`: standard input).

        Raises:
            InputError: a line can't be read, or has too many units; names it.
            OSError: a file can't be read.
        """
        for number, (place, line) in enumerate(read_raw(paths), start=1):
            units = self.pipeline.encode(line)
            longest = self.engine.longest_source
            if (count := len(units.split())) > longest:
                raise InputError(
                    f"{place}: the line has {count} units, the model takes {longest}: divide it"
                )
            yield Sentence(number, words_of(line), units)

    def parse(self, sentences: list[Sentence]) -> Iterator[str]:
        """The output of each sentence; draws where that is wanted."""
        lines = [sentence.units for sentence in sentences if sentence.words]
        units = [line.split() for line in lines]
        found = {}
        lengths = [len(line) + 1 for line in units]
        for batch in batches_by_length(lengths, self.args.batch_tokens):
            decoded = self.engine.decode([units[n] for n in batch], self.options)
            found.update(zip(batch, decoded, strict=True))
        parsed = iter(found[number] for number in range(len(lines)))
        for sentence in sentences:
            best = next(parsed)[0] if sentence.words else None
            tree = None if best is None else self._tree(sentence, best)
            if tree is not None and self.args.draw:
                draw_tree(tree, self._picture(sentence.number))
            yield self._shown(sentence, best, tree)

    def _tree(self, sentence: Sentence, found: Decoded) -> Tree | None:
        self.total += 1
        try:
            return restore(list(found.tokens), sentence.words)
        except BadTree as error:
            if not self.args.unconstrained:
                raise InputError(
                    f"line {sentence.number}: the model counts other words than there are "
                    f"({error}): its bundle's codes or dictionaries were changed; make it again"
                ) from error
            self.malformed += 1
            return None

    def _picture(self, number: int) -> Path:
        path = self.args.draw
        return path if number == 1 else path.with_stem(f"{path.stem}-{number}")

    def _shown(self, sentence: Sentence, found: Decoded | None, tree: Tree | None) -> str:
        if self.args.format == "json":
            entry = {"line": sentence.number, "tree": to_line(tree) if tree else None}
            entry |= {"symbols": found.tokens if found else []}
            return json.dumps(entry | {"score": found.score if found else None})
        if tree is None:
            return ""
        return pretty(tree) if self.args.pretty else to_line(tree)
