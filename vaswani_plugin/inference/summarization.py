"""Summaries by a language model that was trained on `article <sep> summary`.

summarizer = Summarizer.from_pretrained("work/summarization/model")
print(summarizer.summarize("A long article.").text)
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

from vaswani_plugin.decoding import PAPER_DECODING
from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.batching import one_or_many, split_into_buffers
from vaswani_plugin.inference.completing import Completer
from vaswani_plugin.inference.completion import UNKNOWN, Completion, TextCoder
from vaswani_plugin.inference.language_model import LanguageModel
from vaswani_plugin.inference.loading import LoadedFromFiles
from vaswani_plugin.inference.options import as_flag, require_at_least
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.text.coding import SEPARATOR
from vaswani_plugin.text.lines import join_words
from vaswani_plugin.text.sentences import check_text
from vaswani_plugin.text.settings import TextSettings

BUFFER = 256
NOTHING = Completion(tokens=[], log_probabilities=[], score=0.0, ended=True)


@dataclass(frozen=True)
class Summary:
    """An article's summary.

    Args:
        text: one line; empty for an empty article.
        score: log P / length penalty, natural logarithm.
        tokens: of the summary.
        token_scores: log P of each token; if the model ended the summary, log P of the end follows.
        ended: whether the model ended it; otherwise it was cut at the limit.
        article_tokens: how many tokens the article has.
        read_tokens: how many tokens of its beginning the model read.
    """

    text: str
    score: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    ended: bool
    article_tokens: int
    read_tokens: int


class SummaryKeywords(TypedDict, total=False):
    """The fields of `SummaryOptions` as keywords."""

    beam: int | None
    length_penalty: float
    max_length: int | None
    no_repeat_ngram: int
    batch_tokens: int


@dataclass(frozen=True)
class SummaryOptions:
    """How articles are summarized.

    Args:
        beam: width; None: the bundle's, else the paper's.
        length_penalty: alpha of ((5 + |Y|) / 6)^alpha, by which log P is divided.
        max_length: most tokens of a summary; None: the limit of the training.
        no_repeat_ngram: no n-gram of so many tokens occurs twice in a summary; 0: no limit.
        batch_tokens: most tokens of articles in a batch, padding included.
    """

    beam: int | None = None
    length_penalty: float = PAPER_DECODING["lenpen"]
    max_length: int | None = None
    no_repeat_ngram: int = 0
    batch_tokens: int = 4096

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UserError: one is too small; names it, as a flag.
        """
        require_at_least(vars(self), as_flag)

    def search_options(self) -> SearchOptions:
        """The options of the search."""
        assert self.beam is not None
        return SearchOptions(
            beam=self.beam,
            nbest=1,
            lenpen=self.length_penalty,
            no_repeat_ngram_size=self.no_repeat_ngram,
        )


class Summarizer(LoadedFromFiles):
    """A language model that summarizes; threads may use it at the same time.

    Args:
        model: of a bundle of recipes/summarization.sh.

    Raises:
        UserError: it was not trained to summarize.
    """

    def __init__(self, model: LanguageModel) -> None:
        settings = None if model.pipeline is None else model.pipeline.settings
        if (
            not isinstance(settings, TextSettings)
            or settings.article_tokens is None
            or settings.summary_tokens is None
        ):
            raise UserError(
                "this language model was not trained to summarize; give a bundle of "
                "recipes/summarization.sh"
            )
        self.model, self.beam = model, settings.beam
        self.article_tokens, self.summary_tokens = settings.article_tokens, settings.summary_tokens
        self._coder = TextCoder(model.dictionary, model.pipeline)
        self._completer = Completer(model.model, model.dictionary, self._coder, model.threads)

    @classmethod
    def from_pretrained(cls, folder: str | Path, **options: Any) -> "Summarizer":
        """Load a bundle; options and errors are those of `LanguageModel.from_pretrained`."""
        model = LanguageModel.from_pretrained(folder, **options)
        return cls(model).loaded_by(cls.from_pretrained, folder, **options)

    @overload  # a string is an iterable of strings, too: the first one that fits is taken
    def summarize(  # type: ignore[overload-overlap]
        self, articles: str, *, progress: bool = False, **options: Unpack[SummaryKeywords]
    ) -> Summary: ...

    @overload
    def summarize(
        self,
        articles: Iterable[str],
        *,
        progress: bool = False,
        **options: Unpack[SummaryKeywords],
    ) -> list[Summary]: ...

    def summarize(
        self,
        articles: str | Iterable[str],
        *,
        progress: bool = False,
        **options: Unpack[SummaryKeywords],
    ) -> Summary | list[Summary]:
        """Summarize articles.

        Args:
            articles: one or many; a line break in one counts as a space.
            progress: show a bar on standard error.
            options: of `SummaryOptions`.

        Returns:
            The summary; for several articles a list, in their order.

        Raises:
            UserError: options that don't fit each other or the model.
        """
        return one_or_many(articles, partial(self.stream, **options), "articles", progress)

    def stream(
        self, articles: Iterable[str], *, buffer: int = BUFFER, **options: Unpack[SummaryKeywords]
    ) -> Iterator[Summary]:
        """Summarize a stream, `buffer` articles at a time; see `summarize`.

        An error of the stream is raised after the articles before it are answered.
        """
        require_at_least({"buffer": buffer})
        chosen = self._complete_options(SummaryOptions(**options))
        encode = self._coder.encode_line
        numbered = enumerate(articles, start=1)
        lines = (check_text(text, f"article {n}").replace("\n", " ") for n, text in numbered)
        coded = (encode(line) if line.strip() else () for line in lines)
        buffers = split_into_buffers(coded, buffer)
        return (summary for group in buffers for summary in self._summarize(group, chosen))

    def _complete_options(self, options: SummaryOptions) -> SummaryOptions:
        """Replace None in the options by the bundle's values."""
        read, positions = self.article_tokens, self.model.positions
        most = options.max_length or self.summary_tokens
        room = positions - read - 2  # the sentence's start and <sep>
        if most > room:
            raise UserError(
                f"--max-length {most}: beside {read} units of article the model's {positions} "
                f"positions leave {room}"
            )
        beam = options.beam or self.beam or PAPER_DECODING["beam"]
        return replace(options, max_length=most, beam=beam)

    def _summarize(
        self, articles: list[tuple[str, ...]], options: SummaryOptions
    ) -> Iterator[Summary]:
        """The best summary of each article; an empty article is not given to the model."""
        index, end = self.model.dictionary.index, self.model.dictionary.eos()
        read = [article[: self.article_tokens] for article in articles]
        assert options.max_length is not None
        found = iter(
            self._completer.search(
                [[*map(index, units), index(SEPARATOR)] for units in read if units],
                options.search_options(),
                options.max_length,
                end,
                (SEPARATOR, UNKNOWN),
                options.batch_tokens,
            )
        )
        for article, units in zip(articles, read, strict=True):
            best = next(found)[0] if units else NOTHING
            tokens = tuple(self.model.dictionary[token] for token in best.tokens)
            yield Summary(
                text=join_words(self._coder.decode(tokens)),
                score=best.score,
                tokens=tokens,
                token_scores=tuple(best.log_probabilities),
                ended=best.ended,
                article_tokens=len(article),
                read_tokens=len(units),
            )
