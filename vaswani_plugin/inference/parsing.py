"""A parser for Python: tokenized sentences in, constituency trees out (section 6.3).

    parser = Parser.from_pretrained("work/parsing/model")
    print(parser.parse("the dog barks").bracketing)

Axes: B sentences of a batch.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import torch

from vaswani_plugin.inference.bundle import Bundle, Pretrained
from vaswani_plugin.inference.search_engine import TorchEngine
from vaswani_plugin.inference.texts import (
    Hypothesis,
    TextTooLong,
    encode,
    in_batches,
    one_line,
    one_or_many,
    seed_of,
    split_into_buffers,
)
from vaswani_plugin.search.options import (
    PARSER_DECODING,
    Options,
    SearchOptions,
    check_ranges,
    takes_options,
)
from vaswani_plugin.search.well_formed import Grammar
from vaswani_plugin.text.linearization import restore, words_of
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.raw_text import remove_invisible
from vaswani_plugin.text.settings import TreeSettings
from vaswani_plugin.text.trees import BadTree, nltk_tree, parse_tree, to_line

if TYPE_CHECKING:
    from nltk.tree import Tree as NltkTree

BUFFER = 256


@dataclass(frozen=True)
class Parse:
    """One tree of a sentence.

    Args:
        bracketing: the tree on one line; empty if the constraint was off and the output is no tree
            over the words.
        score: log P / length penalty, natural logarithm.
        symbols: the output of the model.
        symbol_scores: log P of each symbol, then of the end of sentence.
    """

    bracketing: str
    score: float
    symbols: tuple[str, ...]
    symbol_scores: tuple[float, ...]

    @property
    def tree(self) -> "NltkTree | None":
        """The tree as an `nltk.Tree`; None if there is none."""
        return nltk_tree(parse_tree(self.bracketing)) if self.bracketing else None


@dataclass(frozen=True)
class ParsedSentence:
    """A sentence and its trees.

    Args:
        words: as treebanks write them; none for an empty sentence.
        parses: the best one first; none for an empty sentence.
    """

    words: tuple[str, ...]
    parses: tuple[Parse, ...]

    @property
    def tree(self) -> "NltkTree | None":
        """The best tree as an `nltk.Tree`; None if there is none."""
        return self.parses[0].tree if self.parses else None

    @property
    def bracketing(self) -> str:
        """The best tree on one line; empty if there is none."""
        return self.parses[0].bracketing if self.parses else ""

    @property
    def score(self) -> float | None:
        """The score of the best parse; None for an empty sentence."""
        return self.parses[0].score if self.parses else None


@takes_options("parse", "stream", batch_tokens=2048)
class Parser(Pretrained):
    """A trained parser; threads may use it at the same time."""

    def __init__(self, pipeline: Pipeline, engine: TorchEngine) -> None:
        assert isinstance(pipeline.settings, TreeSettings)
        self.pipeline, self.settings, self.engine = pipeline, pipeline.settings, engine
        self.longest_source = engine.longest_source
        """Most units of a sentence."""
        self._grammar = Grammar(engine.source, engine.target)

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        *,
        device: str | torch.device = "cpu",
        dtype: str | torch.dtype | None = None,
        threads: int | None = None,
    ) -> "Parser":
        """Load a bundle of recipes/parsing.sh; see `Translator.from_pretrained`."""
        check_ranges(threads=threads)
        bundle = Bundle.load(Path(folder), TreeSettings)
        engine = TorchEngine(bundle.load_model(), device, dtype, threads)
        loaded = cls(bundle.pipeline, engine)
        return loaded.loaded_by(folder, device=device, dtype=dtype, threads=threads)

    @overload  # a string is an iterable of strings, too: the first one that fits is taken
    def parse(
        self, sentences: str, *, progress: bool = False, **options: Any
    ) -> ParsedSentence: ...

    @overload
    def parse(
        self, sentences: Iterable[str], *, progress: bool = False, **options: Any
    ) -> list[ParsedSentence]: ...

    def parse(
        self, sentences: str | Iterable[str], *, progress: bool = False, **options: Any
    ) -> ParsedSentence | list[ParsedSentence]:
        """Parse sentences of words between blanks, as treebanks divide them ("do n't").

        Args:
            sentences: one or many.
            progress: show a bar on standard error.
            options: see `stream`.

        Returns:
            The trees; for several sentences a list, in their order.

        Raises:
            UserError: options that don't fit, or a sentence that is too long.
        """
        return one_or_many(sentences, partial(self.stream, **options), "sentences", progress)

    def stream(
        self,
        sentences: Iterable[str],
        *,
        buffer: int = BUFFER,
        unconstrained: bool = False,
        **options: Any,
    ) -> Iterator[ParsedSentence]:
        """Parse a stream, `buffer` sentences at a time; see `parse`.

        Args:
            sentences: the stream.
            buffer: sentences read before they are parsed.
            unconstrained: allow outputs that are no tree, as in the paper.
            options: of `Options`; the paper's beam is 21 here, alpha 0.3 (section 6.3).

        Returns:
            An iterator. An error of a sentence, or of the stream, is raised after the trees of the
            earlier sentences.
        """
        chosen = Options(**{"batch_tokens": 2048, **options})
        paper = PARSER_DECODING | ({"beam": self.settings.beam} if self.settings.beam else {})
        given = chosen, chosen.search(**paper), unconstrained, count()  # numbers of batches
        read = (self._read(number, line) for number, line in enumerate(sentences, start=1))
        buffers = split_into_buffers(read, buffer, chosen.seed is None and sentences)
        return (found for group in buffers for found in self._parse(group, *given))

    def _read(self, number: int, line: str) -> "_Sentence":
        units = encode(line, self.pipeline, "the sentence")
        sentence = _Sentence(words_of(remove_invisible(one_line(line))), units)
        size, most = len(units), self.longest_source
        if size > most:
            text = f"line {number}: the line has {size} units, the model takes {most}: divide it"
            raise TextTooLong(number, size, most, text)
        return sentence

    def _parse(
        self,
        sentences: list["_Sentence"],
        options: Options,
        chosen: SearchOptions,
        unconstrained: bool,
        batches: Iterator[int],
    ) -> Iterator[ParsedSentence]:
        tracking = () if unconstrained else (self._grammar.start_tracking,)
        asked = [sentence.units for sentence in sentences if sentence.words]

        def answer(batch: list[int]) -> list[list[Hypothesis]]:
            units = [asked[place] for place in batch]
            seed = seed_of(options.seed, next(batches))
            return self.engine.decode(units, chosen, seed, tracking)

        found = iter(in_batches(asked, options.batch_tokens, answer))
        for sentence in sentences:
            best = next(found)[: options.nbest] if sentence.words else []
            parses = (self._parse_of(sentence, one, unconstrained) for one in best)
            yield ParsedSentence(tuple(sentence.words), tuple(parses))

    def _parse_of(self, sentence: "_Sentence", found: Hypothesis, unconstrained: bool) -> Parse:
        try:
            bracketing = to_line(restore(found.tokens, sentence.words))
        except BadTree:
            if not unconstrained:
                raise
            bracketing = ""
        return Parse(bracketing, found.score, found.tokens, found.token_scores)


class _Sentence(NamedTuple):
    """A sentence: its words, and the units that the model reads."""

    words: list[str]
    units: tuple[str, ...]
