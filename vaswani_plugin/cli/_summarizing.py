"""What `vaswani summarize` does once its flags are read: articles in, summaries out."""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from vaswani_plugin.cli._flags import processor
from vaswani_plugin.cli._lines import buffer_size, opened, progress, read_raw
from vaswani_plugin.cli._lm_model import LanguageModel, load_model
from vaswani_plugin.decoding import PAPER_DECODING
from vaswani_plugin.inference.batching import batches_by_length, in_buffers
from vaswani_plugin.search.completion import Completion, complete
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.search.packing import PackedWeights
from vaswani_plugin.text.coding import SEPARATOR, UNKNOWN
from vaswani_plugin.text.summaries import one_line

NOTHING = Completion(tokens=[], log_probabilities=[], score=0.0, ended=True)


@dataclass(frozen=True)
class Article:
    """An article: number of its line, from 1 on; its units, and how many of them are read."""

    number: int
    units: list[str]
    read: int


def run(args: argparse.Namespace) -> int:
    """Summarize; returns 0.

    Raises:
        ValueError: flags that don't fit, a bundle or a line that can't be used.
        OSError: a file can't be read or written.
    """
    device = processor(args)
    summarizer = Summarizer(load_summarizer(args.model, device), args)
    inputs = args.inputs or ["-"]
    total = cut = 0
    with opened(args.output) as write, progress(inputs, args.output) as bar:
        for articles in in_buffers(summarizer.read(inputs), buffer_size(args, inputs)):
            found = summarizer.summarize(articles)
            write([summarizer.shown(*both) for both in zip(articles, found, strict=True)])
            total += len(articles)
            cut += sum(article.read < len(article.units) for article in articles)
            bar.update(len(articles))
    if cut:
        print(
            f"vaswani summarize: {cut:,} of {total:,} articles are longer than the model reads; "
            f"of those the first {summarizer.article_tokens} units were read",
            file=sys.stderr,
        )
    return 0


def load_summarizer(folder: Path, device: torch.device) -> LanguageModel:
    """The model of a bundle that was trained to summarize.

    Raises:
        ValueError: it is no such bundle.
        OSError: a file can't be read.
    """
    if not folder.is_dir():
        raise ValueError(
            f"--model {folder}: must be a bundle, as recipes/summarization.sh makes it"
        )
    model = load_model(folder, None, device)
    if model.pipeline.settings.article_tokens is None:
        raise ValueError(
            f"--model {folder}: this language model was not trained to summarize; give a bundle of "
            "recipes/summarization.sh"
        )
    return model


class Summarizer:
    """From raw articles to output lines.

    Args:
        model: of `load_summarizer`.
        args: the command's flags.

    Raises:
        ValueError: flags that don't fit the model.
    """

    def __init__(self, model: LanguageModel, args: argparse.Namespace) -> None:
        settings = model.pipeline.settings
        self.model = model
        self.separator = model.dictionary.index(SEPARATOR)
        self.article_tokens = settings.article_tokens
        self.most = args.max_length or settings.summary_tokens
        room = model.longest - settings.article_tokens - 2  # the sentence's start and <sep>
        if self.most > room:
            raise ValueError(
                f"--max-length {self.most}: beside {settings.article_tokens} units of article the "
                f"model's {model.longest} positions leave {room}"
            )
        self.options = SearchOptions(
            beam=args.beam or settings.beam or PAPER_DECODING["beam"],
            lenpen=args.lenpen,
            no_repeat_ngram_size=args.no_repeat_ngram_size,
        )
        self.batch_tokens = args.batch_tokens
        self.as_json = args.format == "json"
        self.weights = PackedWeights()

    def read(self, paths: list[str]) -> Iterator[Article]:
        """Yields the articles of files (`-`: standard input), a line each; raises `InputError`."""
        encode = self.model.pipeline.encode
        for number, (_, line) in enumerate(read_raw(paths), start=1):
            units = encode(line).split() if line.strip() else []
            yield Article(number, units, min(len(units), self.article_tokens))

    def summarize(self, articles: list[Article]) -> list[Completion]:
        """The best summary of each; of an empty article none is asked for."""
        found = [NOTHING] * len(articles)
        asked = [number for number, article in enumerate(articles) if article.read]
        for batch in batches_by_length([articles[n].read for n in asked], self.batch_tokens):
            numbers = [asked[place] for place in batch]
            prompts = [self._prompt(articles[number]) for number in numbers]
            completed = complete(
                self.model.model,
                self.model.dictionary,
                prompts,
                self.options,
                self.most,
                self.model.dictionary.eos(),
                suppressed=(SEPARATOR, UNKNOWN),
                weights=self.weights,
            )
            for number, completions in zip(numbers, completed, strict=True):
                found[number] = completions[0]
        return found

    def _prompt(self, article: Article) -> list[int]:
        units = article.units[: article.read]
        return [*map(self.model.dictionary.index, units), self.separator]

    def shown(self, article: Article, summary: Completion) -> str:
        """The output line."""
        tokens = [self.model.dictionary[token] for token in summary.tokens]
        text = one_line(self.model.pipeline.decode(" ".join(tokens)))
        if not self.as_json:
            return text
        entry = {"line": article.number, "article_tokens": len(article.units)}
        entry |= {"read_tokens": article.read, "summary": text, "score": summary.score}
        entry |= {"tokens": tokens, "log_probabilities": summary.log_probabilities}
        return json.dumps(entry | {"ended": summary.ended})
