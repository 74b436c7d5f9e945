"""Texts continued by a language model: prompts, the search, and the text that it adds.

Axes: B prompts, W beams, T new tokens.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from vaswani_plugin.search.hypotheses import Found
from vaswani_plugin.search.models import padded
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.search.search import Search, Step
from vaswani_plugin.search.text_model import TextModel
from vaswani_plugin.text.dictionary import Dictionary
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.raw_text import check_text
from vaswani_plugin.text.settings import TextSettings

UNKNOWN, LINE_END = "<unk>", "</s>"


@dataclass(frozen=True)
class Continuation:
    """The text that a model adds to a prompt.

    Args:
        text: without the prompt.
        score: log P / length penalty, natural logarithm.
        tokens: the new tokens; they include a line's end if the model went on after it.
        token_scores: log P of each token under the temperature; if the model ended the text, log P
            of the end follows.
        ended: whether the model ended the text; otherwise it was cut at the limit.
    """

    text: str
    score: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    ended: bool


@dataclass(frozen=True)
class CompletedPrompt:
    """A prompt and its continuations.

    Args:
        prompt: the text.
        prompt_tokens: the prompt's tokens that the model read.
        continuations: the best one first.
        warnings: sentences about unknown tokens, and about a beginning that was not read.
    """

    prompt: str
    prompt_tokens: tuple[str, ...]
    continuations: tuple[Continuation, ...]
    warnings: tuple[str, ...] = ()

    @property
    def best(self) -> Continuation:
        """The continuation with the best score."""
        return self.continuations[0]

    @property
    def text(self) -> str:
        """The prompt with its best continuation."""
        return self.prompt + self.best.text


@dataclass(frozen=True)
class Prompt:
    """A prompt as the model reads it; `number` counts the prompts of a call from 1 on."""

    number: int
    text: str
    units: tuple[str, ...]
    warnings: tuple[str, ...] = ()


class TextCoder:
    """Converts between text and the units of a language model."""

    def __init__(self, dictionary: Dictionary, pipeline: Pipeline) -> None:
        self.dictionary, self.pipeline = dictionary, pipeline
        # In the other codings the blank between two words belongs to the second one.
        settings = pipeline.settings
        self.by_character = isinstance(settings, TextSettings) and settings.coding == "characters"

    def encode_line(self, line: str) -> tuple[str, ...]:
        """The units of a line, without its end."""
        return tuple(self.pipeline.encode(line).split())

    def encode(self, text: str) -> tuple[str, ...]:
        """The units of a text; a line's end follows each line but the last one."""
        *before, last = check_text(text, "the text").split("\n")
        units = [unit for line in before for unit in (*self.encode_line(line), LINE_END)]
        return (*units, *self.encode_line(last))

    def decode(self, units: Iterable[str]) -> str:
        """The text of a line's units."""
        return self.pipeline.decode(" ".join(units))

    def prompt(self, number: int, text: str, longest: int) -> Prompt:
        """A prompt as the model reads it: of one with more than `longest` units only the end."""
        text = check_text(text, f"prompt {number}")
        units = self.encode(text if self.by_character else text.rstrip(" "))
        warnings, size = [], len(units)
        unknown = [unit for unit in units if unit not in self.dictionary and unit != UNKNOWN]
        if unknown:
            shown = f"the model, which reads {UNKNOWN}: {', '.join(dict.fromkeys(unknown[:5]))}"
            warnings.append(
                f"prompt {number}: {len(unknown)} of {size} tokens are unknown to {shown}"
            )
        dropped = max(0, size - longest)
        if dropped:
            room = f"beside the new ones the model's positions leave {longest}"
            warnings.append(
                f"prompt {number} has {size} tokens; {room}: the last {longest} are read"
            )
        return Prompt(number, text, units[dropped:], tuple(warnings))

    def completed(self, prompt: Prompt, bare: Iterable[Continuation]) -> CompletedPrompt:
        """A prompt with the texts of its continuations."""
        continuations = (replace(one, text=self.added_text(prompt, one.tokens)) for one in bare)
        return CompletedPrompt(prompt.text, prompt.units, tuple(continuations), prompt.warnings)

    def added_text(self, prompt: Prompt, tokens: Iterable[str]) -> str:
        """The text that new tokens add to a prompt's text; a line's end becomes a line break."""
        lines: list[list[str]] = [[]]
        for token in tokens:
            if token == LINE_END:
                lines.append([])
            else:
                lines[-1].append(token)
        begun = " ".join(prompt.units).rpartition(LINE_END)[2].split()
        texts = [self.decode([*begun, *lines[0]])[len(self.decode(begun)) :]]
        texts += [self.decode(line) for line in lines[1:]]
        text = "\n".join(texts)
        is_after_blank = prompt.text.endswith(" ") and not self.by_character
        return text.removeprefix(" ") if is_after_blank else text


def complete(
    model: TextModel,
    dictionary: Dictionary,
    prompts: list[list[int]],
    options: SearchOptions,
    max_new_tokens: int,
    stop_at: int | None,
    suppressed: tuple[str, ...] = (),
    random: torch.Generator | None = None,
) -> list[list[Continuation]]:
    """Continue prompts, numbers of tokens, in one batch, each after an end of sentence.

    A text is cut after `max_new_tokens`, or at the model's last position; the token `stop_at` ends
    it, if any. The words `suppressed` are never written, and `random` draws the samples. Each
    prompt gets at most W continuations without their texts, the best score first.
    """
    read = [[dictionary.eos(), *prompt] for prompt in prompts]
    limits = [min(max_new_tokens, model.longest_target - len(prompt)) for prompt in read]
    device = next(model.decoder.parameters()).device
    lengths = np.array([len(prompt) for prompt in read])
    stop = dictionary.pad() if stop_at is None else stop_at
    least, limit_of = min(limits), torch.tensor(limits, device=device)

    def leave_limit_unscored(log_p: Tensor, step: Step) -> None:
        """The end of a text at its limit costs nothing: a cut text's score has no such term."""
        if step.number >= least:
            log_p[..., stop].masked_fill_((limit_of[step.sentences] <= step.number)[:, None], 0.0)

    def continuation(hypothesis: Found, limit: int) -> Continuation:
        tokens = tuple(dictionary[token] for token in hypothesis.tokens.tolist()[:-1])
        log_p, ended = tuple(hypothesis.positional_scores.tolist()), len(tokens) < limit
        log_p = log_p if ended else log_p[:-1]
        return Continuation("", float(hypothesis.score), tokens, log_p, ended)

    search = Search(
        [model],
        dictionary,
        options,
        eos=stop,
        tokens_to_suppress=suppressed,
        constraints=(leave_limit_unscored,),
        random=random,
    )
    best = search.run(padded(read, dictionary.pad(), device), prompts=(limits, lengths))
    return [[continuation(each, n) for each in row] for row, n in zip(best, limits, strict=True)]
