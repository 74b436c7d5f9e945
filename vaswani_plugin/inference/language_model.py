"""A language model for Python: completes texts and scores them.

    model = LanguageModel.from_pretrained("work/lm/model")
    print(model.complete("The history of", sampling=True, top_p=0.9).text)
    print(model.perplexity("a line\\nanother line").per_word)

`summarization.py` has the summarizer, `parsing.py` the parser.

Axes: N tokens of a stream.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.bundle import LoadedFromFiles
from vaswani_plugin.inference.completion import (
    UNKNOWN,
    CompletedPrompt,
    Completion,
    Prompt,
    TextCoder,
    Watch,
    complete,
)
from vaswani_plugin.inference.engine import dtype_of
from vaswani_plugin.inference.models import LoadedText, load_language_model
from vaswani_plugin.inference.options import CompletionOptions, require_at_least
from vaswani_plugin.inference.search_engine import use_threads
from vaswani_plugin.inference.text_scores import (
    Perplexity,
    StreamScorer,
    TextScore,
    score_texts,
    windows,
)
from vaswani_plugin.inference.texts import (
    in_batches,
    one_or_many,
    progress_bar,
    seed_of,
    split_into_buffers,
)
from vaswani_plugin.metrics.perplexity import count_text
from vaswani_plugin.metrics.scored_text import count_represented, number_by
from vaswani_plugin.modules.recurrent_language_model import RecurrentLanguageModel
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.text.sentences import check_text

BUFFER = 64
REPLACEMENT = "\ufffd"
"""Stands for bytes that are no whole character yet."""


class LanguageModel(LoadedFromFiles):
    """A trained language model; its methods may be called from several threads at once.

    Args:
        loaded: the model, and what is known of it.
        threads: of PyTorch on the CPU, for each call; None: as many as PyTorch has now.
    """

    def __init__(self, loaded: LoadedText, threads: int | None = None) -> None:
        self.model = loaded.model
        self.dictionary, self.task, self.pipeline = loaded.dictionary, loaded.task, loaded.pipeline
        self.positions: int = loaded.model.longest_target
        """Longest text in tokens."""
        self.coder = TextCoder(loaded.dictionary, loaded.pipeline)
        self.threads = threads or torch.get_num_threads()

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        *,
        data: str | Path | None = None,
        device: str | torch.device = "cpu",
        dtype: str | torch.dtype | None = None,
        threads: int | None = None,
    ) -> "LanguageModel":
        """Load a language model of this plugin; it needs no fairseq.

        Args:
            folder: a bundle, or a checkpoint.
            data: with a checkpoint: the folder of its dictionary.
            device: where it computes.
            dtype: of its weights, such as torch.bfloat16 or "bfloat16"; None: as they are.
            threads: of PyTorch on the CPU, for each call; None: as many as PyTorch has now.

        Raises:
            ForeignModel: only fairseq builds this model.
            ValueError: it is no language model, or can't be used; names the file. Or there is no
                such `dtype`.
            OSError: a file can't be read.
        """
        loaded = load_language_model(Path(folder), None if data is None else Path(data))
        loaded.model.decoder.to(device=device, dtype=dtype_of(dtype))
        options = {"data": data and Path(data).absolute(), "device": device, "dtype": dtype}
        made = cls(loaded, threads)
        return made.loaded_by(cls.from_pretrained, folder, threads=threads, **options)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.decoder.parameters()).device

    @overload  # a string is an iterable of strings, too: the first one that fits is taken
    def complete(self, prompts: str, **options: Any) -> CompletedPrompt: ...

    @overload
    def complete(self, prompts: Iterable[str], **options: Any) -> list[CompletedPrompt]: ...

    def complete(
        self, prompts: str | Iterable[str], *, progress: bool = False, **options: Any
    ) -> CompletedPrompt | list[CompletedPrompt]:
        """Continue texts.

        Args:
            prompts: one text or many, of one line or more; an empty one begins a text.
            progress: show a bar on standard error.
            options: of `CompletionOptions`, such as sampling=True, top_p=0.9.

        Returns:
            The prompt with its continuations; for several prompts a list, in their order.

        Raises:
            UserError: options that don't fit each other or the model, a prompt that is too long,
                or a model that was trained to summarize.
        """
        return one_or_many(prompts, partial(self.stream, **options), "prompts", progress)

    def stream(
        self, prompts: Iterable[str], *, buffer: int = BUFFER, **options: Any
    ) -> Iterator[CompletedPrompt]:
        """Continue the texts of a stream, `buffer` at a time; see `complete`.

        An error of a prompt, or of the stream, is raised after the prompts before it are answered.
        """
        require_at_least(buffer=buffer)
        chosen = self._completion_options(options)
        read = (self._prompt(number, text, chosen) for number, text in enumerate(prompts, start=1))
        buffers = split_into_buffers(read, buffer)
        return (found for group in buffers for found in self._complete(group, chosen))

    def write(
        self, prompt: str, write: Callable[[str], object], *, number: int = 1, **options: Any
    ) -> CompletedPrompt:
        """Continue one text, and pass on each part of it as soon as it is chosen.

        Args:
            prompt: the text.
            write: takes the parts of the continuation, one after the other.
            number: of the prompt; samples with a seed depend on it.
            options: of `CompletionOptions`; with a beam of 1 and one sample only.

        Returns:
            The prompt with its continuation.

        Raises:
            UserError: as in `complete`.
        """
        chosen = self._completion_options(options)
        if chosen.search_options().beam > 1:
            raise UserError("a text can be written while it grows with --beam 1 and --samples 1")
        read = self._prompt(number, prompt, chosen)
        written = 0

        def add(text: str) -> None:
            nonlocal written
            if text[written:]:
                write(text[written:])
            written = max(written, len(text))

        def watch(tokens: Tensor) -> None:  # (1, 1, T)
            # The bytes of an incomplete character are shown when it is complete.
            add(self.coder.added_text(read, tokens[0, 0].tolist()).rstrip(REPLACEMENT))

        (found,) = self._complete([read], chosen, watch)
        add(found.best.text)
        return found

    def search(
        self,
        prompts: list[list[int]],
        options: SearchOptions,
        max_new_tokens: int,
        batch_tokens: int,
        suppressed: tuple[str, ...] = (UNKNOWN,),
        stops: bool = True,
        watch: Watch | None = None,
        random: torch.Generator | None = None,
    ) -> list[list[Completion]]:
        """Complete prompts in batches of similar length.

        Args:
            prompts: numbers of tokens.
            options: of the search.
            max_new_tokens: a text is cut after so many.
            batch_tokens: most tokens of a batch, padding included.
            suppressed: words that are never written.
            stops: whether the end of a line ends a text.
            watch, random: see `completion.complete`.

        Returns:
            The completions of each prompt, the best one first.
        """
        use_threads(self.threads)
        stop = self.dictionary.eos() if stops else None

        def answer(batch: list[int]) -> list[list[Completion]]:
            rows = [prompts[place] for place in batch]
            given = self.model, self.dictionary, rows, options, max_new_tokens, stop
            return complete(*given, suppressed=suppressed, watch=watch, random=random)

        return in_batches(prompts, batch_tokens, answer)

    @overload
    def score(  # type: ignore[overload-overlap]
        self, texts: str, *, batch_tokens: int = ..., progress: bool = ...
    ) -> TextScore: ...

    @overload
    def score(
        self, texts: Iterable[str], *, batch_tokens: int = ..., progress: bool = ...
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
            UserError: a text is longer than the model's positions, or the model was trained to
                summarize.
        """
        self.require_whole_texts()
        coded = list(map(self.coder.encode, [texts] if isinstance(texts, str) else texts))
        for number, tokens in enumerate(coded, start=1):
            if len(tokens) >= self.positions:
                raise UserError(
                    f"text {number} has {len(tokens)} tokens and the model {self.positions} "
                    f"positions, the end of the text included: divide it, or ask for its perplexity"
                )
        with progress_bar(len(coded), "texts", progress) as bar:
            found = score_texts(self.model, self.dictionary, coded, batch_tokens, bar.update)
        return found[0] if isinstance(texts, str) else found

    def perplexity(
        self,
        text: str | Iterable[str],
        *,
        tokens_per_sample: int | None = None,
        context_window: int = 0,
        batch_tokens: int = 4096,
        progress: bool = False,
    ) -> Perplexity:
        """How well the model predicts a text, in windows cut as by fairseq-eval-lm.

        Args:
            text: the text, or its lines without their ends.
            tokens_per_sample: tokens of a window, context included; None: as in training.
            context_window: most tokens of a window that are only context for the others.
            batch_tokens: most tokens of a batch, padding and context included.
            progress: show a bar on standard error.

        Raises:
            UserError: windows that don't fit the model, an empty text, or a model that was trained
                to summarize.
        """
        lines = text.removesuffix("\n").split("\n") if isinstance(text, str) else list(text)
        lines = [check_text(line, f"line {n}") for n, line in enumerate(lines, start=1)]
        if not any(map(str.split, lines)):
            raise UserError("the text is empty: there is nothing to score")
        pipeline = self.pipeline
        coded = [pipeline.encode(line) for line in lines] if pipeline else lines
        tokens = number_by(self.dictionary, coded)
        size = self.window_size(tokens_per_sample)
        cut = windows(len(tokens.numbers), size, context_window)
        with progress_bar(len(tokens.numbers), "tokens", progress) as bar:
            scores = self.stream_scorer(tokens.numbers).static(cut, batch_tokens, bar.update)
        counts = count_represented(lines, coded, pipeline)[0] if pipeline else count_text(lines)
        return Perplexity(len(scores), tokens.unknown, float(scores.sum()), counts)

    def text_knowledge(self) -> dict[str, Any]:
        """The keyword arguments of `scored_text.read_scored_text` that the model determines."""
        known = {"dictionary": self.dictionary, "pipeline": self.pipeline}
        return known | {"saw_lines_apart": self.task.saw_lines_apart}

    def window_size(self, tokens_per_sample: int | None = None) -> int:
        """Tokens of a window, context included; None: as in training.

        Raises:
            UserError: the model has fewer positions.
        """
        size = tokens_per_sample or min(self.task.tokens_per_sample, self.positions)
        if size > self.positions:
            raise UserError(f"--tokens-per-sample {size}: the model has {self.positions} positions")
        return size

    def stream_scorer(self, numbers: NDArray[np.int64], carry_state: bool = False) -> StreamScorer:
        """Prepare to score a stream of tokens in windows.

        Args:
            numbers: of the tokens, (N,).
            carry_state: go on with the state of a recurrent model from window to window.

        Raises:
            UserError: the model was trained to summarize, or is not our recurrent one and would
                have to carry its state.
        """
        self.require_whole_texts()
        if carry_state and not isinstance(self.model.decoder, RecurrentLanguageModel):
            raise UserError(
                "--carry-state: only vaswani_lm_lstm has a state to carry from window to window; "
                "give other models --context-window N"
            )
        use_threads(self.threads)
        ends = self.dictionary.pad(), self.dictionary.eos()
        return StreamScorer(self.model, numbers, *ends, carry_state)

    def require_whole_texts(self) -> None:
        """Refuse a model that learned only a part of each line.

        Raises:
            UserError: names the symbol that precedes this part.
        """
        if self.task.loss_after is not None:
            raise UserError(
                f"the model learned only what follows {self.task.loss_after} in a line: give its "
                "bundle to vaswani summarize, and let fairseq-eval-lm score it"
            )

    def _completion_options(self, options: dict[str, Any]) -> CompletionOptions:
        self.require_whole_texts()
        chosen = CompletionOptions.of(options).for_positions(self.positions)
        chosen.search_options()  # wrong options raise before a prompt is read
        return chosen

    def _prompt(self, number: int, text: str, options: CompletionOptions) -> Prompt:
        return self.coder.prompt(number, text, options, self.positions)

    def _complete(
        self, prompts: list[Prompt], options: CompletionOptions, watch: Watch | None = None
    ) -> list[CompletedPrompt]:
        """Continue prompts: one by one with a seed, otherwise in batches."""
        if options.seed is not None and len(prompts) > 1:
            return [found for one in prompts for found in self._complete([one], options, watch)]
        random = None
        if options.sampling:
            random = torch.Generator(self.device)
            if options.seed is None:
                random.seed()
            else:
                random.manual_seed(seed_of(options.seed, prompts[0].number))
        found = self.search(
            [[self.dictionary.index(unit) for unit in prompt.units] for prompt in prompts],
            options.search_options(),
            options.limit,
            options.batch_tokens,
            stops=options.stop == "end",
            watch=watch,
            random=random,
        )
        return [
            self.coder.completed(prompt, completions[: options.nbest])
            for prompt, completions in zip(prompts, found, strict=True)
        ]
