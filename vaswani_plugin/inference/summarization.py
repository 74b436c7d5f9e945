"""Summaries by a language model that was trained on `article <sep> summary`.

summarizer = Summarizer.from_pretrained("work/summarization/model")
print(summarizer.summarize("A long article.").text)
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, Unpack, overload

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import join_words
from vaswani_plugin.inference.bundle import Pretrained
from vaswani_plugin.inference.completion import UNKNOWN, Continuation
from vaswani_plugin.inference.language_model import LanguageModel
from vaswani_plugin.inference.runner import Batches, one_line, one_or_many, run
from vaswani_plugin.search.options import PAPER_DECODING, Keywords, Options, takes_options
from vaswani_plugin.text.coding import SEPARATOR
from vaswani_plugin.text.raw_text import remove_invisible
from vaswani_plugin.text.settings import TextSettings

BUFFER = 256
NOTHING = Continuation(text="", score=0.0, tokens=(), token_scores=(), ended=True)


@dataclass(frozen=True)
class Summary(Continuation):
    """An article's summary; its text is one line, empty for an empty article.

    Args:
        article_tokens: how many tokens the article has.
        read_tokens: how many tokens of its beginning the model read.
    """

    article_tokens: int
    read_tokens: int


class SummaryOptions(Keywords, total=False):
    """The keywords of `Summarizer.stream`."""

    buffer: int
    max_length: int | None


@takes_options("summarize", "stream")
class Summarizer(Pretrained):
    """A language model that summarizes; threads may use it at the same time."""

    kind = TextSettings

    def __init__(self, model: LanguageModel) -> None:
        settings: Any = model.pipeline.settings
        self.model, self.beam = model, settings.beam
        self.article_tokens: int = settings.article_tokens
        self.summary_tokens: int = settings.summary_tokens
        if None in (self.article_tokens, self.summary_tokens):
            recipe = "recipes/summarization.sh"
            raise UserError(f"the model was not trained to summarize: give a bundle of {recipe}")

    @classmethod
    def of_bundle(cls, *bundle: Any, **options: Any) -> Self:
        return cls(LanguageModel.of_bundle(*bundle, **options))

    @overload  # a string is an iterable of strings, too: the first one that fits is taken
    def summarize(  # type: ignore[overload-overlap]
        self, articles: str, *, progress: bool = False, **options: Unpack[SummaryOptions]
    ) -> Summary: ...

    @overload
    def summarize(
        self, articles: Iterable[str], *, progress: bool = False, **options: Unpack[SummaryOptions]
    ) -> list[Summary]: ...

    def summarize(
        self, articles: str | Iterable[str], *, progress: bool = False, **options: Any
    ) -> Summary | list[Summary]:
        """Summarize articles.

        Args:
            articles: one or many; a line break in one counts as a space.
            options: also `progress`: see `stream`.

        Returns:
            The summary; for several articles a list, in their order.

        Raises:
            UserError: options that don't fit each other or the model.
        """
        return one_or_many(articles, partial(self.stream, progress=progress, **options))

    def stream(
        self,
        articles: Iterable[str],
        *,
        buffer: int = BUFFER,
        max_length: int | None = None,
        progress: bool = False,
        **options: Unpack[Keywords],
    ) -> Iterator[Summary]:
        """Summarize a stream, `buffer` articles at a time; see `summarize`.

        Args:
            buffer: articles read before they are summarized.
            max_length: most tokens of a summary; None: the limit of the training.
            progress: show a bar on standard error.
            options: of `Options`; there is one summary of an article.

        Returns:
            An iterator. An error of the stream is raised after the earlier articles' summaries.
        """
        most = self.summary_tokens if max_length is None else max_length
        room = self.model.positions - self.article_tokens - 2  # the sentence's start and <sep>
        if most > room:
            raise UserError(
                f"max_length {most}: beside {self.article_tokens} units of article the model's "
                f"{self.model.positions} positions leave {room}"
            )
        model, chosen, paper = self.model, Options(**options), PAPER_DECODING
        if chosen.nbest != 1:
            raise UserError("nbest: there is one summary of an article")
        search = chosen.search(self.beam or paper["beam"], paper["lenpen"])

        def read(number: int, text: str) -> tuple[str, ...]:
            line = one_line(text, f"article {number}")
            return model.coder.encode_line(line) if remove_invisible(line).strip() else ()

        def summaries(articles: list[tuple[str, ...]], batches: Batches) -> Iterator[Summary]:
            index = model.dictionary.index
            beginnings = [article[: self.article_tokens] for article in articles]
            prompts = [[*map(index, units), index(SEPARATOR)] for units in beginnings if units]
            continuations = iter(model.search(prompts, search, most, batches, (SEPARATOR, UNKNOWN)))
            for article, units in zip(articles, beginnings, strict=True):
                best = next(continuations)[0] if units else NOTHING  # an empty article isn't read
                fields = vars(best) | {"text": join_words(model.coder.decode(best.tokens))}
                yield Summary(**fields, article_tokens=len(article), read_tokens=len(units))

        return run(articles, read, summaries, buffer, chosen, "articles", progress)
