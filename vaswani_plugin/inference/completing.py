"""Completes batches of prompts by the search, and shows texts while they grow.

Axes: B prompts, W beams, T new tokens.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from vaswani_plugin.inference.batching import batches_by_length, seed_of
from vaswani_plugin.inference.completion import (
    REPLACEMENT,
    UNKNOWN,
    CompletedPrompt,
    CompletionOptions,
    Prompt,
    TextCoder,
)
from vaswani_plugin.inference.threads import use_threads
from vaswani_plugin.search.completion import Completion, Watch, complete
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.search.packing import PackedWeights
from vaswani_plugin.text.dictionary import Dictionary


class Completer:
    """Completes prompts with one model; threads may use it at the same time.

    Args:
        model: in evaluation mode.
        dictionary: of its tokens.
        coder: converts between texts and tokens.
        threads: of PyTorch on the CPU, for each call.
    """

    def __init__(
        self, model: nn.Module, dictionary: Dictionary, coder: TextCoder, threads: int
    ) -> None:
        self.model, self.dictionary, self.coder = model, dictionary, coder
        self.threads = threads
        self._weights = PackedWeights()

    def complete(
        self, prompts: list[Prompt], options: CompletionOptions, watch: Watch | None = None
    ) -> list[CompletedPrompt]:
        """Continue prompts: one by one with a seed, otherwise in batches.

        Args:
            prompts: of `TextCoder.prompt`.
            options: of `CompletionOptions.for_positions`.
            watch: is called with the growing texts; see `search.completion`.

        Returns:
            Each prompt with its continuations, in order.
        """
        if options.seed is None:
            return self._complete(prompts, options, watch)
        return [found for one in prompts for found in self._complete([one], options, watch)]

    def write(
        self, prompt: Prompt, options: CompletionOptions, write: Callable[[str], object]
    ) -> CompletedPrompt:
        """Continue one prompt, greedily or by one sample.

        Args:
            prompt: of `TextCoder.prompt`.
            options: of `CompletionOptions.for_positions`.
            write: is called with each new part of the text.

        Returns:
            The prompt with its continuation.
        """
        written = 0

        def add(text: str) -> None:
            nonlocal written
            if text[written:]:
                write(text[written:])
            written = max(written, len(text))

        def watch(tokens: Tensor) -> None:  # (1, 1, T)
            # The bytes of an incomplete character are shown when it is complete.
            add(self.coder.added_text(prompt, tokens[0, 0].tolist()).rstrip(REPLACEMENT))

        (found,) = self.complete([prompt], options, watch)
        add(found.best.text)
        return found

    def search(
        self,
        prompts: list[list[int]],
        options: SearchOptions,
        max_new_tokens: int,
        stop: int | None,
        suppressed: tuple[str, ...],
        batch_tokens: int,
        watch: Watch | None = None,
        random: torch.Generator | None = None,
    ) -> list[list[Completion]]:
        """Complete prompts in batches of similar length.

        Args:
            prompts: numbers of tokens.
            batch_tokens: most tokens of a batch, padding included.
            options, max_new_tokens, stop, suppressed, watch, random: see `search.completion`.

        Returns:
            The completions of each prompt, the best one first.
        """
        use_threads(self.threads)
        found: dict[int, list[Completion]] = {}
        for batch in batches_by_length([len(prompt) + 1 for prompt in prompts], batch_tokens):
            completed = complete(
                self.model,
                self.dictionary,
                [prompts[place] for place in batch],
                options,
                max_new_tokens,
                stop,
                suppressed=suppressed,
                watch=watch,
                weights=self._weights,
                random=random,
            )
            found.update(zip(batch, completed, strict=True))
        return [found[place] for place in range(len(prompts))]

    def _complete(
        self, prompts: list[Prompt], options: CompletionOptions, watch: Watch | None
    ) -> list[CompletedPrompt]:
        random = None
        if options.sampling:
            random = torch.Generator(next(self.model.parameters()).device)
            if options.seed is None:
                random.seed()
            else:
                random.manual_seed(seed_of(options.seed, prompts[0].number))
        found = self.search(
            [[self.dictionary.index(unit) for unit in prompt.units] for prompt in prompts],
            options.search_options(),
            options.limit,
            self.dictionary.eos() if options.stop == "end" else None,
            (UNKNOWN,),
            options.batch_tokens,
            watch,
            random,
        )
        return [
            self._completed(prompt, completions[: options.nbest])
            for prompt, completions in zip(prompts, found, strict=True)
        ]

    def _completed(self, prompt: Prompt, completions: list[Completion]) -> CompletedPrompt:
        continuations = tuple(self.coder.continuation(prompt, one) for one in completions)
        return CompletedPrompt(prompt.text, prompt.units, continuations, prompt.warnings)
