"""Options, prompts and results of completing texts with a language model."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypedDict

from vaswani_plugin.decoding import MAX_NEW_TOKENS
from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.options import as_flag, require_at_least
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.text.dictionary import Dictionary
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.sentences import check_text
from vaswani_plugin.text.settings import TextSettings

UNKNOWN, LINE_END, REPLACEMENT = "<unk>", "</s>", "\ufffd"


@dataclass(frozen=True)
class Completion:
    """One continuation of a prompt.

    Args:
        tokens: numbers of the new tokens, without the token that ended the text.
        log_probabilities: natural logarithm of each token's probability, with the temperature
            applied. If the model ended the text, the value of its end comes last.
        score: the sum of `log_probabilities`, divided by the length penalty.
        ended: whether the model ended the text; otherwise it was cut at the limit.
    """

    tokens: list[int]
    log_probabilities: list[float]
    score: float
    ended: bool


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


class CompletionKeywords(TypedDict, total=False):
    """The fields of `CompletionOptions` as keywords."""

    beam: int
    nbest: int
    length_penalty: float
    max_new_tokens: int | None
    min_new_tokens: int
    no_repeat_ngram: int
    sampling: bool
    top_k: int | None
    top_p: float | None
    temperature: float | None
    seed: int | None
    stop: Literal["end", "never"]
    long: Literal["cut", "error"]
    batch_tokens: int


@dataclass(frozen=True)
class CompletionOptions:
    """How texts are completed.

    Args:
        beam: width; 1 is greedy. Samples need none.
        nbest: number of continuations of each prompt: the best of the beam, or samples.
        length_penalty: alpha of ((5 + |Y|) / 6)^alpha, by which log P is divided; 0: none.
        max_new_tokens: a text is cut after so many tokens; None: 100, or half of the model's
            positions if that is less.
        min_new_tokens: a text can't end before so many tokens.
        no_repeat_ngram: no n-gram of so many tokens occurs twice among the new ones; 0: no limit.
        sampling: draw each token at random.
        top_k: draw among the k likeliest tokens only.
        top_p: draw among the fewest tokens whose probabilities sum to at least p.
        temperature: divides the logits of samples; below 1 makes likely tokens likelier; None: 1.
        seed: the samples of the n-th prompt depend only on the seed, n and the prompt; prompts
            are then completed one by one, not in batches. None: a random seed.
        stop: "end": stop at the end of a line, as in the training text; "never": go on with the
            next line until the text is cut.
        long: for a prompt that leaves too few positions for the new tokens: "cut" reads only its
            last tokens; "error" refuses it.
        batch_tokens: most tokens of prompts in a batch, padding included.
    """

    beam: int = 1
    nbest: int = 1
    length_penalty: float = 0.0
    max_new_tokens: int | None = None
    min_new_tokens: int = 0
    no_repeat_ngram: int = 0
    sampling: bool = False
    top_k: int | None = None
    top_p: float | None = None
    temperature: float | None = None
    seed: int | None = None
    stop: Literal["end", "never"] = "end"
    long: Literal["cut", "error"] = "cut"
    batch_tokens: int = 4096

    def __post_init__(self) -> None:
        """Refuse options that contradict each other.

        Raises:
            UserError: names the option, as a flag, and the remedy.
        """
        require_at_least(vars(self), as_flag)
        for name, known in (("stop", ("end", "never")), ("long", ("cut", "error"))):
            if getattr(self, name) not in known:
                raise UserError(
                    f"{name} is {getattr(self, name)!r}; it must be {' or '.join(known)}"
                )
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UserError(f"--top-p {self.top_p}: must be above 0 and at most 1")
        if self.top_k is not None and self.top_p is not None:
            raise UserError("--top-k and --top-p exclude each other")
        if self.sampling:
            if self.beam > 1:
                raise UserError("--beam and --sampling exclude each other")
        else:
            for name in ("top_k", "top_p", "temperature", "seed"):
                if getattr(self, name) is not None:
                    raise UserError(f"--{name.replace('_', '-')} goes with --sampling")
            if self.nbest > self.beam:
                raise UserError(
                    f"--samples {self.nbest}: a beam of {self.beam} finds no more than "
                    f"{self.beam}; give --beam {self.nbest} or --sampling"
                )
        self.search_options()

    def search_options(self) -> SearchOptions:
        """The options of the search.

        Raises:
            UserError: names the option, as a flag, and the remedy.
        """
        return SearchOptions(
            beam=self.nbest if self.sampling else self.beam,
            nbest=self.nbest,
            lenpen=self.length_penalty,
            min_len=self.min_new_tokens,
            no_repeat_ngram_size=self.no_repeat_ngram,
            sampling=self.sampling,
            sampling_topk=self.top_k or -1,
            sampling_topp=self.top_p or -1.0,
            temperature=1.0 if self.temperature is None else self.temperature,
        )

    def for_positions(self, positions: int) -> "CompletionOptions":
        """The options with `max_new_tokens` set, for a model.

        Args:
            positions: of the model.

        Raises:
            UserError: no position is left for a prompt, or --min-new-tokens exceeds the limit.
        """
        most = self.max_new_tokens or min(MAX_NEW_TOKENS, positions // 2)
        if most >= positions:  # the end of sentence comes before a prompt
            raise UserError(
                f"--max-new-tokens {most}: the model has {positions} positions; give at most "
                f"{positions - 1}"
            )
        if self.min_new_tokens > most:
            raise UserError(
                f"--min-new-tokens {self.min_new_tokens} exceeds --max-new-tokens {most}; lower it"
            )
        return replace(self, max_new_tokens=most)

    @property
    def limit(self) -> int:
        """`max_new_tokens`, once `for_positions` has set it."""
        assert self.max_new_tokens is not None
        return self.max_new_tokens


@dataclass(frozen=True)
class Prompt:
    """A prompt as the model reads it; `number` counts the prompts of a call from 1 on."""

    number: int
    text: str
    units: tuple[str, ...]
    warnings: tuple[str, ...] = ()


class TextCoder:
    """Converts between text and the units of a language model.

    Args:
        dictionary: of the model.
        pipeline: between raw text and units; None: the text is units divided by blanks.
    """

    def __init__(self, dictionary: Dictionary, pipeline: Pipeline | None) -> None:
        self.dictionary, self.pipeline = dictionary, pipeline
        # In the other codings the blank between two words belongs to the second one.
        settings = None if pipeline is None else pipeline.settings
        self.by_character = isinstance(settings, TextSettings) and settings.coding == "characters"

    def encode_line(self, line: str) -> tuple[str, ...]:
        """The units of a line, without its end."""
        return tuple((self.pipeline.encode(line) if self.pipeline else line).split())

    def encode(self, text: str) -> tuple[str, ...]:
        """The units of a text; a line's end follows each line but the last one."""
        *before, last = check_text(text, "the text").split("\n")
        units = [unit for line in before for unit in (*self.encode_line(line), LINE_END)]
        return (*units, *self.encode_line(last))

    def decode(self, units: Iterable[str]) -> str:
        """The text of a line's units."""
        text = " ".join(units)
        return self.pipeline.decode(text) if self.pipeline else text

    def prompt(self, number: int, text: str, options: CompletionOptions, positions: int) -> Prompt:
        """A prompt as the model reads it.

        Args:
            number: of the prompt, for messages.
            text: its text.
            options: of `CompletionOptions.for_positions`.
            positions: of the model.

        Raises:
            UserError: the prompt is too long, and `options.long` is "error".
        """
        text = check_text(text, f"prompt {number}")
        units = self.encode(text if self.by_character else text.rstrip(" "))
        warnings = []
        unknown = [unit for unit in units if unit not in self.dictionary and unit != UNKNOWN]
        if unknown:
            warnings.append(
                f"prompt {number}: the model knows {len(unknown)} of {len(units)} tokens not and "
                f"reads {UNKNOWN}: {', '.join(dict.fromkeys(unknown[:5]))}"
            )
        longest = positions - options.limit - 1  # the end of sentence comes before
        dropped = max(0, len(units) - longest)
        if dropped:
            problem = (
                f"prompt {number} has {len(units)} tokens; beside {options.limit} new "
                f"ones the model's {positions} positions leave {longest}"
            )
            if options.long == "error":
                raise UserError(f"{problem}: shorten it, or give less than --max-new-tokens")
            warnings.append(f"{problem}: the last {longest} are read")
        return Prompt(number, text, units[dropped:], tuple(warnings))

    def continuation(self, prompt: Prompt, completion: Completion) -> Continuation:
        """A completion with its text."""
        tokens = tuple(self.dictionary[token] for token in completion.tokens)
        scores = tuple(completion.log_probabilities)
        text = self.added_text(prompt, completion.tokens)
        return Continuation(text, completion.score, tokens, scores, completion.ended)

    def added_text(self, prompt: Prompt, tokens: list[int]) -> str:
        """The text that new tokens add to a prompt's text; a line's end becomes a line break."""
        lines: list[list[str]] = [[]]
        for token in tokens:
            if token == self.dictionary.eos():
                lines.append([])
            else:
                lines[-1].append(self.dictionary[token])
        begun = " ".join(prompt.units).rpartition(LINE_END)[2].split()
        before = self.decode(begun)
        texts = [self.decode([*begun, *lines[0]])[len(before) :]]
        texts += [self.decode(line) for line in lines[1:]]
        text = "\n".join(texts)
        is_after_blank = prompt.text.endswith(" ") and not self.by_character
        return text.removeprefix(" ") if is_after_blank else text
