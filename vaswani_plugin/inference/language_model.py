"""A language model for Python: completes texts and scores them.

    model = LanguageModel.from_pretrained("work/lm/model")
    print(model.complete("The history of", sampling=True, top_p=0.9).text)
    print(model.perplexity("a line\\nanother line")["perplexity_per_word"])

Axes: N tokens of a stream.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Self, Unpack, overload

import numpy as np
import torch
from numpy.typing import NDArray

from vaswani_plugin.errors import UserError, check_ranges, require_choice
from vaswani_plugin.inference.bundle import Bundle, Pretrained
from vaswani_plugin.inference.checkpoints import Loaded
from vaswani_plugin.inference.completion import (
    UNKNOWN,
    CompletedPrompt,
    Continuation,
    Prompt,
    TextCoder,
    complete,
)
from vaswani_plugin.inference.language_model_scores import (
    StreamScorer,
    TextScore,
    score_texts,
    windows,
)
from vaswani_plugin.inference.runner import Batches, one_or_many, progress_bar, run, seed_of
from vaswani_plugin.inference.search_engine import moved, use_threads
from vaswani_plugin.metrics.perplexity import result
from vaswani_plugin.metrics.token_stream import count_represented, number_by
from vaswani_plugin.search.options import Keywords, Options, SearchOptions, takes_options
from vaswani_plugin.search.text_model import TextModel
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.raw_text import check_text
from vaswani_plugin.text.settings import TextSettings

BUFFER = 64
MAX_NEW_TOKENS = 100
"""Greatest number of new tokens of a completion, or half of the model's positions if less."""


class CompleteOptions(Keywords, total=False):
    """The keywords of `LanguageModel.stream`."""

    buffer: int
    max_new_tokens: int | None
    min_new_tokens: int
    stop: str


@takes_options("complete", "stream")
class LanguageModel(Pretrained):
    """A trained language model; its methods may be called from several threads at once.

    Args:
        loaded: the model and its dictionary.
        pipeline: between raw text and tokens.
        threads: of PyTorch on the CPU, for each call; None: as many as PyTorch has now.
    """

    kind = TextSettings

    def __init__(self, loaded: Loaded, pipeline: Pipeline, threads: int | None = None) -> None:
        self.model: TextModel = loaded.family.searched(loaded.model)
        self.dictionary, self.pipeline = loaded.target, pipeline
        self.tokens_per_sample: int = loaded.task["tokens_per_sample"]
        """Length of a training window."""
        self.saw_lines_apart = str(loaded.task.get("sample_break_mode")) == "eos"
        """Whether each training sample was a single line, without earlier lines as context."""
        self.loss_after: str | None = loaded.task.get("loss_after")
        """Only the tokens after this symbol counted in the loss of a line; None: all did."""
        self.positions: int = self.model.longest_target
        """Longest text in tokens."""
        self.coder = TextCoder(self.dictionary, pipeline)
        self.threads = threads or torch.get_num_threads()

    @classmethod
    def of_bundle(cls, bundle: Bundle, device: Any, dtype: Any, threads: int | None) -> Self:
        loaded = bundle.load_model()
        moved(loaded.model, device, dtype)
        return cls(loaded, bundle.pipeline, threads)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        device: torch.device = next(self.model.decoder.parameters()).device
        return device

    @overload  # a string is an iterable of strings, too: the first one that fits is taken
    def complete(  # type: ignore[overload-overlap]
        self, prompts: str, *, progress: bool = False, **options: Unpack[CompleteOptions]
    ) -> CompletedPrompt: ...

    @overload
    def complete(
        self, prompts: Iterable[str], *, progress: bool = False, **options: Unpack[CompleteOptions]
    ) -> list[CompletedPrompt]: ...

    def complete(
        self, prompts: str | Iterable[str], *, progress: bool = False, **options: Any
    ) -> CompletedPrompt | list[CompletedPrompt]:
        """Continue texts.

        Args:
            prompts: one text or many, of one line or more; an empty one begins a text.
            options: also `progress`: see `stream`.

        Returns:
            The prompt with its continuations; for several prompts a list, in their order.

        Raises:
            UserError: options that don't fit each other or the model, a prompt that is too long,
                or a model that was trained to summarize.
        """
        return one_or_many(prompts, partial(self.stream, progress=progress, **options))

    def stream(
        self,
        prompts: Iterable[str],
        *,
        buffer: int = BUFFER,
        max_new_tokens: int | None = None,
        min_new_tokens: int = 0,
        stop: str = "end",
        progress: bool = False,
        **options: Unpack[Keywords],
    ) -> Iterator[CompletedPrompt]:
        """Continue the texts of a stream, `buffer` at a time; see `complete`.

        Args:
            prompts: the texts; of one that leaves too few positions for the new tokens only the
                last tokens are read.
            buffer: texts read before they are continued.
            max_new_tokens: a text is cut after so many tokens; None: 100, or half of the model's
                positions if that is less.
            min_new_tokens: a text can't end before so many tokens.
            stop: "end": stop at the end of a line, as in the training text; "never": go on with the
                next line until the text is cut.
            progress: show a bar on standard error.
            options: of `Options`, such as sampling=True, top_p=0.9. The samples of the n-th
                prompt depend on the seed, n and the prompt alone: they are completed one by one.

        Returns:
            An iterator. Errors of a prompt or of the stream are raised after the answers before.
        """
        self.require_whole_texts()
        require_choice("stop", stop, "end", "never")
        most = min(MAX_NEW_TOKENS, self.positions // 2)
        most = most if max_new_tokens is None else max_new_tokens
        last = self.positions - 1  # the end of sentence comes before a prompt
        if most > last:
            limit = f"the model has {last + 1} positions; give at most {last}"
            raise UserError(f"max_new_tokens {most}: {limit}")
        if min_new_tokens > most:
            raise UserError(f"min_new_tokens {min_new_tokens} exceeds max_new_tokens {most}")
        chosen = Options(**options)
        search = chosen.search(1, 0.0, min_len=min_new_tokens)

        def read(number: int, text: str) -> Prompt:
            return self.coder.prompt(number, text, last - most)

        def completed(prompts: list[Prompt], batches: Batches) -> Iterator[CompletedPrompt]:
            numbers = [[*map(self.dictionary.index, prompt.units)] for prompt in prompts]
            seeds = [seed_of(chosen.seed, prompt.number) for prompt in prompts]
            ranked = self.search(numbers, search, most, batches, (UNKNOWN,), stop == "end", seeds)
            return map(self.coder.completed, prompts, (each[: chosen.nbest] for each in ranked))

        together = chosen
        if chosen.seed is not None:  # each prompt has a seed, and a batch, of its own
            together = replace(chosen, seed=None, batch_tokens=0)
        return run(prompts, read, completed, buffer, together, "prompts", progress)

    def search(
        self,
        prompts: list[list[int]],
        options: SearchOptions,
        max_new_tokens: int,
        batches: Batches,
        suppressed: tuple[str, ...],
        stops: bool = True,
        seeds: list[int | None] | None = None,
    ) -> list[list[Continuation]]:
        """Complete prompts, numbers of tokens, in batches; see `completion.complete`.

        `stops` tells whether the end of a line ends a text. `seeds` are of each prompt where every
        batch is a single one.
        """
        use_threads(self.threads)
        stop = self.dictionary.eos() if stops else None

        def answer(batch: list[int], seed: int | None) -> list[list[Continuation]]:
            random = torch.Generator(self.device) if options.sampling else None
            if random is not None:
                seed = seed if seeds is None else seeds[batch[0]]
                random.manual_seed(random.seed() if seed is None else seed)
            rows = [prompts[place] for place in batch]
            limits = max_new_tokens, stop, suppressed
            return complete(self.model, self.dictionary, rows, options, *limits, random)

        return batches.answers(prompts, answer)

    @overload
    def score(  # type: ignore[overload-overlap]
        self, texts: str, *, batch_tokens: int = 4096, progress: bool = False
    ) -> TextScore: ...

    @overload
    def score(
        self, texts: Iterable[str], *, batch_tokens: int = 4096, progress: bool = False
    ) -> list[TextScore]: ...

    def score(
        self, texts: str | Iterable[str], *, batch_tokens: int = 4096, progress: bool = False
    ) -> TextScore | list[TextScore]:
        """Score texts, each by itself: log P of its tokens and of its end.

        Args:
            texts: one text or many, of one line or more.
            batch_tokens: most tokens of a batch, padding included.
            progress: show a bar on standard error.

        Returns:
            The score; for several texts a list, in their order.

        Raises:
            UserError: a text beyond the model's positions, or a model trained to summarize.
        """
        check_ranges(batch_tokens=batch_tokens)
        self.require_whole_texts()
        use_threads(self.threads)
        coded = list(map(self.coder.encode, [texts] if isinstance(texts, str) else texts))
        for number, tokens in enumerate(coded, start=1):
            if len(tokens) >= self.positions:
                size = f"text {number} has {len(tokens)} tokens and the model {self.positions}"
                advice = "divide it, or ask for its perplexity"
                raise UserError(f"{size} positions, the end of the text included: {advice}")
        with progress_bar("texts", progress) as bar:
            batches = Batches(Options(batch_tokens=batch_tokens), bar)
            scores = score_texts(self.model, self.dictionary, coded, batches)
        return scores[0] if isinstance(texts, str) else scores

    def perplexity(
        self,
        text: str | Iterable[str],
        *,
        tokens_per_sample: int | None = None,
        context_window: int = 0,
        batch_tokens: int = 4096,
        progress: bool = False,
    ) -> dict[str, Any]:
        """How well the model predicts a text, in windows cut as by fairseq-eval-lm.

        Args:
            text: the text, or its lines, with their ends or without.
            tokens_per_sample: tokens of a window, context included; None: as in training.
            context_window: most tokens of a window that are only context for the others.
            batch_tokens: most tokens of a batch, padding and context included.
            progress: show a bar on standard error.

        Returns:
            The row that `vaswani lm --format json` has of the text: `perplexity` a token,
            `perplexity_per_word`, `bits_per_character`, `bits_per_byte`, `tokens`, how many of them
            are `unknown` to the model but not in the text. A line's end counts in each unit.

        Raises:
            UserError: windows that don't fit, an empty text, or a model trained to summarize.
        """
        sizes = {"tokens_per_sample": tokens_per_sample, "context_window": context_window}
        check_ranges(**sizes, batch_tokens=batch_tokens)
        lines = text.removesuffix("\n").split("\n") if isinstance(text, str) else list(text)
        lines = [check_text(x, f"line {n}").removesuffix("\n") for n, x in enumerate(lines, 1)]
        if not any(map(str.split, lines)):
            raise UserError("the text is empty: there is nothing to score")
        pipeline = self.pipeline
        coded = [pipeline.encode(line) for line in lines]
        tokens = number_by(self.dictionary, coded)
        cut = windows(len(tokens.numbers), self.window_size(tokens_per_sample), context_window)
        with progress_bar("tokens", progress, len(tokens.numbers)) as bar:
            scores = self.stream_scorer(tokens.numbers).static(cut, batch_tokens, bar.update)
        counts, _ = count_represented(lines, coded, pipeline)
        coding = getattr(pipeline.settings, "coding", "tokens")
        return result("model", coding, scores, counts, unknown=tokens.unknown)

    def window_size(self, tokens_per_sample: int | None = None) -> int:
        """Tokens of a window, context included; None: as in training. At most the positions."""
        size = tokens_per_sample
        if size is not None and not 1 <= size <= self.positions:
            raise UserError(f"tokens_per_sample {size}: the model has {self.positions} positions")
        return size or min(self.tokens_per_sample, self.positions)

    def stream_scorer(self, numbers: NDArray[np.int64]) -> StreamScorer:
        """Prepare to score a stream in windows; errors are those of `require_whole_texts`."""
        self.require_whole_texts()
        use_threads(self.threads)
        return StreamScorer(self.model, numbers, self.dictionary.pad(), self.dictionary.eos())

    def require_whole_texts(self) -> None:
        """Refuse a model that learned only a part of each line, that behind a symbol."""
        if self.loss_after is not None:
            raise UserError(
                f"the model learned only what follows {self.loss_after} in a line: give its "
                "bundle to vaswani summarize, and let fairseq-eval-lm score it"
            )
