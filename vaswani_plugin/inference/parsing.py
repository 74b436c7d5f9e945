"""A parser for Python: tokenized sentences in, constituency trees out (section 6.3).

    parser = Parser.from_pretrained("work/parsing/model")
    print(parser.parse("the dog barks").bracketing)

A sentence without words has no trees.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

from vaswani_plugin.inference import runner
from vaswani_plugin.inference.bundle import Bundle, Pretrained
from vaswani_plugin.inference.runner import Batches, Hypothesis, TextTooLong, Tokens
from vaswani_plugin.inference.search_engine import TorchEngine
from vaswani_plugin.search.options import PARSER_DECODING, Keywords, Options, takes_options
from vaswani_plugin.search.well_formed import Grammar
from vaswani_plugin.text.linearization import restore, words_of
from vaswani_plugin.text.pipeline import Pipeline
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
        token_scores: log P of each symbol, then of the end of sentence.
    """

    bracketing: str
    score: float
    symbols: tuple[str, ...]
    token_scores: tuple[float, ...]

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


class ParseOptions(Keywords, total=False):
    """The keywords of `Parser.stream`."""

    buffer: int
    unconstrained: bool


@takes_options("parse", "stream", batch_tokens=2048)
class Parser(Pretrained):
    """A trained parser; threads may use it at the same time."""

    kind = TreeSettings

    def __init__(self, pipeline: Pipeline, engine: TorchEngine) -> None:
        assert isinstance(pipeline.settings, TreeSettings)
        self.pipeline, self.settings, self.engine = pipeline, pipeline.settings, engine
        self.longest_source = engine.longest_source
        """Most units of a sentence."""
        self._grammar = Grammar(engine.source, engine.target)

    @classmethod
    def of_bundle(cls, bundle: Bundle, device: Any, dtype: Any, threads: int | None) -> Self:
        return cls(bundle.pipeline, TorchEngine(bundle.load_model(), device, dtype, threads))

    @overload  # a string is an iterable of strings, too: the first one that fits is taken
    def parse(  # type: ignore[overload-overlap]
        self, sentences: str, *, progress: bool = False, **options: Unpack[ParseOptions]
    ) -> ParsedSentence: ...

    @overload
    def parse(
        self, sentences: Iterable[str], *, progress: bool = False, **options: Unpack[ParseOptions]
    ) -> list[ParsedSentence]: ...

    def parse(
        self, sentences: str | Iterable[str], *, progress: bool = False, **options: Any
    ) -> ParsedSentence | list[ParsedSentence]:
        """Parse sentences of words between blanks, as treebanks divide them ("do n't").

        Args:
            sentences: one or many.
            options: also `progress`: see `stream`.

        Returns:
            The trees; for several sentences a list, in their order.

        Raises:
            UserError: options that don't fit, or a sentence that is too long.
        """
        return runner.one_or_many(sentences, partial(self.stream, progress=progress, **options))

    def stream(
        self,
        sentences: Iterable[str],
        *,
        buffer: int = BUFFER,
        unconstrained: bool = False,
        progress: bool = False,
        **options: Unpack[Keywords],
    ) -> Iterator[ParsedSentence]:
        """Parse a stream, `buffer` sentences at a time; see `parse`.

        Args:
            buffer: sentences read before they are parsed.
            unconstrained: allow outputs that are no tree, as in the paper.
            progress: show a bar on standard error.
            options: of `Options`; the paper's beam is 21 here, alpha 0.3 (section 6.3).

        Returns:
            An iterator. Errors of a sentence or of the stream are raised after the trees before.
        """
        chosen = Options(**Keywords(batch_tokens=2048) | options)
        paper = PARSER_DECODING | ({"beam": self.settings.beam} if self.settings.beam else {})
        search = chosen.search(**paper)
        tracking = () if unconstrained else (self._grammar.start_tracking,)

        def parse_of(words: tuple[str, ...], hypothesis: Hypothesis) -> Parse:
            try:
                bracketing = to_line(restore(hypothesis.tokens, words))
            except BadTree:
                if not unconstrained:
                    raise
                bracketing = ""
            return Parse(bracketing, hypothesis.score, hypothesis.tokens, hypothesis.token_scores)

        def parsed(
            sentences: list[tuple[tuple[str, ...], Tokens]], batches: Batches
        ) -> Iterator[ParsedSentence]:
            sources = [units for words, units in sentences if words]

            def decode(batch: list[int], seed: int | None) -> list[list[Hypothesis]]:
                return self.engine.decode([sources[n] for n in batch], search, seed, tracking)

            decoded = iter(batches.answers(sources, decode))
            for words, _ in sentences:
                best = next(decoded)[: chosen.nbest] if words else []
                yield ParsedSentence(words, tuple(parse_of(words, each) for each in best))

        return runner.run(sentences, self._read, parsed, buffer, chosen, "sentences", progress)

    def _read(self, number: int, line: str) -> tuple[tuple[str, ...], Tokens]:
        """A sentence's words, and the units that the model reads."""
        units = runner.encode(line, self.pipeline, "the sentence")
        size, most = len(units), self.longest_source
        if size > most:
            text = f"line {number}: the line has {size} units, the model takes {most}: divide it"
            raise TextTooLong(number, size, most, text)
        return tuple(words_of(runner.one_line(line))), units
