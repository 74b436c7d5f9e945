"""Completing texts with a language model, by the search that translates.

A prompt takes the place of the source: `complete` hands prompts to the generator of translations.

Axes: B prompts, P prompt length, W beams, R = B W rows, T new tokens, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vaswani_plugin.errors import UserError
from vaswani_plugin.search.constraints import Constraint, Step
from vaswani_plugin.search.dictionary import Dictionary
from vaswani_plugin.search.generator import BeamSearchGenerator
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.search.packing import PackedWeights

Watch = Callable[[Tensor], None]
"""Is shown the new tokens so far of every open continuation, (b, W, T), before each next one."""


@dataclass(frozen=True)
class Completion:
    """One continuation of a prompt.

    Args:
        tokens: numbers of the new tokens, without the one that ended the text.
        log_probabilities: of each, natural logarithm, under the temperature; where the text
            ended, that of its end comes last.
        score: their sum by the length penalty.
        ended: whether the model ended the text; otherwise it was cut at the limit.
    """

    tokens: list[int]
    log_probabilities: list[float]
    score: float
    ended: bool


@torch.no_grad()
def complete(
    model: nn.Module,
    dictionary: Dictionary,
    prompts: list[list[int]],
    options: SearchOptions,
    max_new_tokens: int,
    stop_at: int | None,
    suppressed: tuple[str, ...] = (),
    watch: Watch | None = None,
    weights: PackedWeights | None = None,
    random: torch.Generator | None = None,
) -> list[list[Completion]]:
    """Continue each prompt, all in one batch.

    Every prompt is read behind the end of sentence that begins a sample in training.

    Args:
        model: ours, or any other of fairseq's language models (which reads the whole text anew
            for every token).
        dictionary: that of the model.
        prompts: token numbers, without that end of sentence; an empty prompt begins a text.
        options: width, penalty, sampling; lengths other than `min_len` are not looked at.
        max_new_tokens: after as many a text is cut, or where the model's positions end.
        stop_at: the token that ends a text, usually the end of sentence; None: no token does.
        suppressed: words that are never written.
        watch: is shown how the texts grow.
        weights: packed weights of the model, kept by the caller from batch to batch.
        random: draws the samples; None: PyTorch's own generator of the device.

    Returns:
        Of each prompt at most W completions, the best score first.

    Raises:
        UserError: when a prompt leaves no position for a new token, `max_new_tokens` is below 1,
            or options contradict each other.
    """
    if max_new_tokens < 1:
        raise UserError(f"{max_new_tokens} new tokens: must be at least 1")
    positions = model.max_decoder_positions()
    read = [[dictionary.eos(), *prompt] for prompt in prompts]
    limits = [min(max_new_tokens, positions - len(prompt)) for prompt in read]
    for number, (prompt, limit) in enumerate(zip(read, limits, strict=True), start=1):
        if limit < 1:
            raise UserError(
                f"prompt {number} has {len(prompt)} tokens, the sentence's start included, which "
                f"leaves none of the model's {positions} positions for a new one; shorten it"
            )
    if not prompts:
        return []
    device = next(model.parameters()).device
    lengths = torch.tensor([len(prompt) for prompt in read], device=device)
    tokens = torch.full((len(read), int(lengths.max())), dictionary.pad(), device=device)
    for row, prompt in zip(tokens, read, strict=True):
        row[: len(prompt)] = torch.tensor(prompt, device=device)
    stop = dictionary.pad() if stop_at is None else stop_at
    constraints = [_end_for_nothing(limits, stop, device)]
    if watch is not None:
        constraints.append(lambda log_p, step: watch(step.history()))
    generator = _CompletionGenerator(
        [_Prompted(model, dictionary.pad())],
        dictionary,
        options,
        limits=limits,
        eos=stop,
        constraints=tuple(constraints),
        tokens_to_suppress=suppressed,
        weights=weights,
        random=random,
    )
    batch = {"net_input": {"src_tokens": tokens, "src_lengths": lengths}}
    found = generator.generate([model], batch)
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


def _end_for_nothing(limits: list[int], stop: int, device: torch.device) -> Constraint:
    """A text that is cut is not scored as if the model had ended it."""
    least, limit = min(limits), torch.tensor(limits, device=device)

    def constrain(log_p: Tensor, step: Step) -> None:
        if step.number >= least:
            is_cut = limit[step.sentences] <= step.number
            log_p[..., stop].masked_fill_(is_cut[:, None], 0.0)

    return constrain


class _CompletionGenerator(BeamSearchGenerator):
    """The generator of translations with limits that are known beforehand."""

    def __init__(self, *args, limits: list[int], **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.limits = limits

    def _limits(self, sources: Tensor, prefix: Tensor) -> list[int]:
        return self.limits


class _Prompted:
    """A language model as the generator sees models: the prompt is source and encoder's output."""

    def __init__(self, model: nn.Module, pad: int) -> None:
        self.model, self.decoder = model, model.decoder
        self.pad = pad
        self.encoder = self

    def eval(self) -> None:
        self.model.eval()

    def forward_torchscript(self, prompts: dict[str, Tensor]) -> dict[str, Tensor]:
        return prompts

    def max_decoder_positions(self) -> int:
        return self.model.max_decoder_positions()

    def begin_beams(self, prompts: dict[str, Tensor]) -> "_RereadBeams":
        return _RereadBeams(self.model, prompts["src_tokens"], prompts["src_lengths"], self.pad)


class _RereadBeams:
    """`Beams` over any language model of fairseq: every step reads the whole text."""

    def __init__(self, model, prompts: Tensor, lengths: Tensor, pad: int) -> None:
        self.model = model
        self.pad = pad
        self.text, self.lengths = prompts, lengths  # (R, P + T), (R,)

    def advance(self, tokens: Tensor, parents: Tensor | None) -> None:
        """See `Beams`; the first tokens are not read: the prompts' last ones stand there."""
        self.beams = tokens.size(1)
        if parents is not None:
            before = len(self.text) // len(tokens)
            first = torch.arange(len(tokens), device=tokens.device)[:, None] * before
            self._pick((parents + first).flatten())
            # Texts that have reached the limit are done, but may still be in the batch.
            place = self.lengths.clamp(max=self.model.max_decoder_positions() - 1)
            if self.text.size(1) < self.model.max_decoder_positions():
                self.text = F.pad(self.text, (0, 1), value=self.pad)
            self.text.scatter_(1, place[:, None], tokens.reshape(-1, 1))
            self.lengths = place + 1
        output = self.model(self.text, src_lengths=self.lengths)
        log_p = self.model.get_normalized_probs(output, log_probs=True)
        self.log_p = log_p[torch.arange(len(log_p), device=log_p.device), self.lengths - 1]

    def logits(self, texts: slice) -> Tensor:
        """See `Beams`."""
        return self.log_p.unflatten(0, (-1, self.beams))[texts].clone()

    def keep(self, texts: Tensor) -> None:
        """See `Beams`."""
        beams = torch.arange(self.beams, device=texts.device)
        self._pick((texts[:, None] * self.beams + beams).flatten())

    def _pick(self, rows: Tensor) -> None:
        self.text, self.lengths = self.text[rows], self.lengths[rows]
