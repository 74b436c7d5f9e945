"""Completes batches of prompts by the search, and shows texts while they grow.

Axes: B prompts, W beams, T new tokens.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.batching import batches_by_length, seed_of
from vaswani_plugin.inference.completion import (
    REPLACEMENT,
    UNKNOWN,
    CompletedPrompt,
    Completion,
    CompletionOptions,
    Prompt,
    TextCoder,
)
from vaswani_plugin.inference.threads import use_threads
from vaswani_plugin.search.constraints import Constraint, Step
from vaswani_plugin.search.models import TextModel
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.search.search import Search
from vaswani_plugin.text.dictionary import Dictionary

Watch = Callable[[Tensor], None]
"""Called before each step with the new tokens of every unfinished continuation, (b, W, T)."""


def complete(
    model: TextModel,
    dictionary: Dictionary,
    prompts: list[list[int]],
    options: SearchOptions,
    max_new_tokens: int,
    stop_at: int | None,
    suppressed: tuple[str, ...] = (),
    watch: Watch | None = None,
    random: torch.Generator | None = None,
) -> list[list[Completion]]:
    """Continue all prompts in one batch.

    An end of sentence is put before every prompt, as before every sample in training.

    Args:
        model: other models than our Transformer and our LSTM read the whole text again for every
            token.
        dictionary: the model's dictionary.
        prompts: token numbers, without that end of sentence; an empty prompt begins a text.
        options: of the search; `max_len_a` and `max_len_b` are ignored.
        max_new_tokens: a text is cut after this many new tokens, or at the model's last position.
        stop_at: the token that ends a text, usually the end of sentence; None: no token does.
        suppressed: words that are never written.
        watch: called at every step with the texts so far.
        random: draws the samples; None: PyTorch's own generator of the device.

    Returns:
        For each prompt at most W completions, the best score first.

    Raises:
        UserError: when a prompt leaves no position for a new token, `max_new_tokens` is below 1,
            or options contradict each other.
    """
    if max_new_tokens < 1:
        raise UserError(f"{max_new_tokens} new tokens: must be at least 1")
    read = [[dictionary.eos(), *prompt] for prompt in prompts]
    limits = [min(max_new_tokens, model.longest_target - len(prompt)) for prompt in read]
    for number, (prompt, limit) in enumerate(zip(read, limits, strict=True), start=1):
        if limit < 1:
            raise UserError(
                f"prompt {number} has {len(prompt)} tokens, the sentence's start included, which "
                f"leaves none of the model's {model.longest_target} positions for a new one; "
                f"shorten it"
            )
    if not prompts:
        return []
    device = next(model.decoder.parameters()).device
    lengths = np.array([len(prompt) for prompt in read])
    rows = [prompt + [dictionary.pad()] * (lengths.max() - len(prompt)) for prompt in read]
    stop = dictionary.pad() if stop_at is None else stop_at
    constraints = [_unscored_end_at_limit(limits, stop, device)]
    if watch is not None:
        constraints.append(lambda log_p, step: watch(step.history()))
    search = Search(
        [model],
        dictionary,
        options,
        eos=stop,
        constraints=tuple(constraints),
        tokens_to_suppress=suppressed,
        random=random,
    )
    found = search.run(torch.tensor(rows, device=device), prompts=(limits, lengths))
    return [
        [_completion(hypothesis, limit) for hypothesis in hypotheses]
        for hypotheses, limit in zip(found, limits, strict=True)
    ]


def _completion(hypothesis: dict[str, Tensor], limit: int) -> Completion:
    tokens = hypothesis["tokens"].tolist()[:-1]
    log_probabilities = hypothesis["positional_scores"].tolist()
    ended = len(tokens) < limit
    return Completion(
        tokens,
        log_probabilities if ended else log_probabilities[:-1],
        float(hypothesis["score"]),
        ended,
    )


def _unscored_end_at_limit(limits: list[int], stop: int, device: torch.device) -> Constraint:
    """Make the end of a text at its limit cost nothing: a cut text's score has no such term."""
    least, limit = min(limits), torch.tensor(limits, device=device)

    def constrain(log_p: Tensor, step: Step) -> None:
        if step.number >= least:
            is_cut = limit[step.sentences] <= step.number
            log_p[..., stop].masked_fill_(is_cut[:, None], 0.0)

    return constrain


class Completer:
    """Completes prompts with one model; threads may use it at the same time.

    Args:
        model: the model.
        dictionary: of its tokens.
        coder: converts between texts and tokens.
        threads: of PyTorch on the CPU, for each call.
    """

    def __init__(
        self, model: TextModel, dictionary: Dictionary, coder: TextCoder, threads: int
    ) -> None:
        self.model, self.dictionary, self.coder = model, dictionary, coder
        self.threads = threads

    def complete(
        self, prompts: list[Prompt], options: CompletionOptions, watch: Watch | None = None
    ) -> list[CompletedPrompt]:
        """Continue prompts: one by one with a seed, otherwise in batches.

        Args:
            prompts: of `TextCoder.prompt`.
            options: of `CompletionOptions.for_positions`.
            watch: is called with the growing texts; see `complete`.

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
            options, max_new_tokens, stop, suppressed, watch, random: see `complete`.

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
                random=random,
            )
            found.update(zip(batch, completed, strict=True))
        return [found[place] for place in range(len(prompts))]

    def _complete(
        self, prompts: list[Prompt], options: CompletionOptions, watch: Watch | None
    ) -> list[CompletedPrompt]:
        random = None
        if options.sampling:
            random = torch.Generator(next(self.model.decoder.parameters()).device)
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
