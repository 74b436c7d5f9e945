"""From prompts to completed texts, for `vaswani complete`."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TextIO

import torch
from torch import Tensor

from vaswani_plugin.cli._lm_model import LanguageModel
from vaswani_plugin.cli.complete import MAX_NEW_TOKENS
from vaswani_plugin.inference.batching import batches_by_length
from vaswani_plugin.search.completion import Completion, complete
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.search.packing import PackedWeights
from vaswani_plugin.text.messages import message_line

BATCH_TOKENS = 4096
UNKNOWN, LINE_END, REPLACEMENT = "<unk>", "</s>", "\ufffd"


@dataclass(frozen=True)
class Prompt:
    """A prompt: its number from 1 on, its text, and the units of it that the model reads."""

    number: int
    text: str
    units: list[str]


class Completer:
    """From prompts to output lines.

    Args:
        model: of `load_model`.
        args: the command's flags.
        options: of `search_options`.

    Raises:
        ValueError: the flags don't fit the model.
    """

    def __init__(
        self, model: LanguageModel, args: argparse.Namespace, options: SearchOptions
    ) -> None:
        self.model, self.options = model, options
        self.dictionary = model.dictionary
        self.most = args.max_new_tokens or min(MAX_NEW_TOKENS, model.longest // 2)
        self.longest = model.longest - self.most - 1  # the end of sentence comes before
        if self.longest < 0:
            raise ValueError(
                f"--max-new-tokens {self.most}: the model has {model.longest} positions; give at "
                f"most {model.longest - 1}"
            )
        self.stop = self.dictionary.eos() if args.stop == "end" else None
        self.seed = args.seed
        self.refuse_long = args.long_prompt == "error"
        self.as_json = args.format == "json"
        self.weights = PackedWeights()
        pipeline = model.pipeline
        # Elsewhere the blank between two words comes with the second one.
        self.by_character = pipeline is not None and pipeline.settings.coding == "characters"

    def prompt(self, number: int, text: str) -> Prompt:
        """The units of a prompt; warns on stderr of what the model doesn't read of it.

        Raises:
            ValueError: it is too long and not to be cut.
        """
        *before, last = text.split("\n")
        units = [unit for line in before for unit in (*_encode(self.model, line), LINE_END)]
        units += _encode(self.model, last if self.by_character else last.rstrip(" "))
        unknown = [unit for unit in units if unit not in self.dictionary and unit != UNKNOWN]
        if unknown:
            _warn(
                f"prompt {number}: the model knows {len(unknown)} of {len(units)} tokens not and "
                f"reads {UNKNOWN}: {', '.join(dict.fromkeys(unknown[:5]))}"
            )
        if len(units) > self.longest:
            problem = (
                f"prompt {number} has {len(units)} tokens; beside {self.most} new ones the model's "
                f"{self.model.longest} positions leave {self.longest}"
            )
            if self.refuse_long:
                raise ValueError(f"{problem}: shorten it, or give less than --max-new-tokens")
            _warn(f"{problem}: the last {self.longest} are read")
            units = units[len(units) - self.longest :]
        return Prompt(number, text, units)

    def complete(
        self, prompts: list[Prompt], watch: Callable[[Tensor], None] | None = None
    ) -> list[list[Completion]]:
        """The completions of each prompt, the best one first."""
        if self.seed is not None:
            torch.manual_seed(self.seed + prompts[0].number)
        found: dict[int, list[Completion]] = {}
        lengths = [len(prompt.units) + 1 for prompt in prompts]
        for batch in batches_by_length(lengths, BATCH_TOKENS):
            completed = complete(
                self.model.model,
                self.dictionary,
                [[self.dictionary.index(u) for u in prompts[place].units] for place in batch],
                self.options,
                self.most,
                self.stop,
                suppressed=(UNKNOWN,),
                watch=watch,
                weights=self.weights,
            )
            found.update(zip(batch, completed, strict=True))
        return [found[place] for place in range(len(prompts))]

    def shown(self, prompt: Prompt, completions: list[Completion]) -> Iterator[str]:
        """The output lines of a prompt: with the prompt and what follows, or as JSON."""
        texts = [self.continuation(prompt, completion.tokens) for completion in completions]
        if not self.as_json:
            yield from (prompt.text + text for text in texts)
            return
        entries = [
            {
                "text": text,
                "tokens": [self.dictionary[token] for token in completion.tokens],
                "log_probabilities": completion.log_probabilities,
                "score": completion.score,
                "ended": completion.ended,
            }
            for text, completion in zip(texts, completions, strict=True)
        ]
        yield json.dumps(
            {
                "line": prompt.number,
                "prompt": prompt.text,
                "prompt_tokens": prompt.units,
                "completions": entries,
            }
        )

    def continuation(self, prompt: Prompt, tokens: list[int]) -> str:
        """What new tokens add to the prompt's text; a line's end among them is a line break."""
        units = [self.dictionary[token] for token in tokens]
        lines: list[list[str]] = [[]]
        for token, unit in zip(tokens, units, strict=True):
            if token == self.dictionary.eos():
                lines.append([])
            else:
                lines[-1].append(unit)
        begun = " ".join(prompt.units).rpartition(LINE_END)[2].split()
        before = _decode(self.model, begun)
        texts = [_decode(self.model, [*begun, *lines[0]])[len(before) :]]
        texts += [_decode(self.model, line) for line in lines[1:]]
        text = "\n".join(texts)
        is_after_blank = prompt.text.endswith(" ") and not self.by_character
        return text.removeprefix(" ") if is_after_blank else text

    def stream(self, prompt: Prompt, stream: TextIO) -> None:
        """Write the prompt, and each new token as soon as it is chosen."""
        written = 0

        def write(text: str) -> None:
            nonlocal written
            stream.write(text[written:])
            stream.flush()
            written = max(written, len(text))

        def watch(tokens: Tensor) -> None:
            # Bytes of a character that isn't whole yet are shown when it is.
            write(self.continuation(prompt, tokens[0, 0].tolist()).rstrip(REPLACEMENT))

        stream.write(prompt.text)
        stream.flush()
        ((completion, *_),) = self.complete([prompt], watch)
        write(self.continuation(prompt, completion.tokens))
        stream.write("\n")


def _encode(model: LanguageModel, text: str) -> list[str]:
    return (model.pipeline.encode(text) if model.pipeline else text).split()


def _decode(model: LanguageModel, units: list[str]) -> str:
    text = " ".join(units)
    return model.pipeline.decode(text) if model.pipeline else text


def _warn(message: str) -> None:
    print(message_line(f"vaswani complete: {message}"), file=sys.stderr)
