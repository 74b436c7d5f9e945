"""Summaries by a language model that was trained on `article <sep> summary`.

summarizer = Summarizer.from_pretrained("work/summarization/model")
print(summarizer.summarize("A long article.").text)
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, overload

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.bundle import LoadedFromFiles
from vaswani_plugin.inference.completion import UNKNOWN, Completion
from vaswani_plugin.inference.language_model import LanguageModel
from vaswani_plugin.inference.options import SummaryOptions, require_at_least
from vaswani_plugin.inference.texts import one_line, one_or_many, split_into_buffers
from vaswani_plugin.text.coding import SEPARATOR
from vaswani_plugin.text.lines import join_words
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

    @classmethod
    def from_pretrained(cls, folder: str | Path, **options: Any) -> "Summarizer":
        """Load a bundle; options and errors are those of `LanguageModel.from_pretrained`."""
        model = LanguageModel.from_pretrained(folder, **options)
        return cls(model).loaded_by(cls.from_pretrained, folder, **options)

    @overload  # a string is an iterable of strings, too: the first one that fits is taken
    def summarize(self, articles: str, **options: Any) -> Summary: ...

    @overload
    def summarize(self, articles: Iterable[str], **options: Any) -> list[Summary]: ...

    def summarize(
        self, articles: str | Iterable[str], *, progress: bool = False, **options: Any
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
        self, articles: Iterable[str], *, buffer: int = BUFFER, **options: Any
    ) -> Iterator[Summary]:
        """Summarize a stream, `buffer` articles at a time; see `summarize`.

        An error of the stream is raised after the articles before it are answered.
        """
        require_at_least(buffer=buffer)
        chosen = self._complete_options(SummaryOptions.of(options))
        encode = self.model.coder.encode_line
        lines = (one_line(text, f"article {n}") for n, text in enumerate(articles, start=1))
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
        return replace(options, max_length=most, beam=options.beam or self.beam)

    def _summarize(
        self, articles: list[tuple[str, ...]], options: SummaryOptions
    ) -> Iterator[Summary]:
        """The best summary of each article; an empty article is not given to the model."""
        dictionary = self.model.dictionary
        index = dictionary.index
        read = [article[: self.article_tokens] for article in articles]
        assert options.max_length is not None
        found = iter(
            self.model.search(
                [[*map(index, units), index(SEPARATOR)] for units in read if units],
                options.search_options(no_repeat_ngram_size=options.no_repeat_ngram),
                options.max_length,
                options.batch_tokens,
                (SEPARATOR, UNKNOWN),
            )
        )
        for article, units in zip(articles, read, strict=True):
            best = next(found)[0] if units else NOTHING
            tokens = tuple(dictionary[token] for token in best.tokens)
            yield Summary(
                text=join_words(self.model.coder.decode(tokens)),
                score=best.score,
                tokens=tokens,
                token_scores=tuple(best.log_probabilities),
                ended=best.ended,
                article_tokens=len(article),
                read_tokens=len(units),
            )
