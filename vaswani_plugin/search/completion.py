"""Completion of texts by a language model, with the search that also translates.

`complete` passes prompts to the generator in place of sources.

Axes: B prompts, P prompt length, W beams, R = B W rows, T new tokens, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vaswani_plugin.errors import UserError
from vaswani_plugin.modules.recurrent_language_model import RecurrentLanguageModel
from vaswani_plugin.search.constraints import Constraint, Step
from vaswani_plugin.search.dictionary import Dictionary
from vaswani_plugin.search.generator import BeamSearchGenerator
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.search.packing import PackedWeights
from vaswani_plugin.search.rows import RowBeams

Watch = Callable[[Tensor], None]
"""Called before each step with the new tokens of every unfinished continuation, (b, W, T)."""


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
    """Continue all prompts in one batch.

    An end of sentence is put before every prompt, as before every sample in training.

    Args:
        model: our language model or any other of fairseq's. Other models than our Transformer and
            our LSTM read the whole text again for every token.
        dictionary: the model's dictionary.
        prompts: token numbers, without that end of sentence; an empty prompt begins a text.
        options: of the search; `max_len_a` and `max_len_b` are ignored.
        max_new_tokens: a text is cut after this many new tokens, or at the model's last position.
        stop_at: the token that ends a text, usually the end of sentence; None: no token does.
        suppressed: words that are never written.
        watch: called at every step with the texts so far.
        weights: packed weights of the model, kept by the caller from batch to batch.
        random: draws the samples; None: PyTorch's own generator of the device.

    Returns:
        For each prompt at most W completions, the best score first.

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
    constraints = [_unscored_end_at_limit(limits, stop, device)]
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


def _unscored_end_at_limit(limits: list[int], stop: int, device: torch.device) -> Constraint:
    """Make the end of a text at its limit cost nothing: a cut text's score has no such term."""
    least, limit = min(limits), torch.tensor(limits, device=device)

    def constrain(log_p: Tensor, step: Step) -> None:
        if step.number >= least:
            is_cut = limit[step.sentences] <= step.number
            log_p[..., stop].masked_fill_(is_cut[:, None], 0.0)

    return constrain


class _CompletionGenerator(BeamSearchGenerator):
    """The generator of translations, with limits given by the caller."""

    def __init__(self, *args, limits: list[int], **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.limits = limits

    def _limits(self, sources: Tensor, prefix: Tensor) -> tuple[list[int], None]:
        return self.limits, None


class _Prompted:
    """Gives a language model the generator's interface; prompts are source and encoder output."""

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

    def begin_beams(self, prompts: dict[str, Tensor]) -> "_RereadBeams | _RecurrentBeams":
        texts = prompts["src_tokens"], prompts["src_lengths"]
        if isinstance(self.decoder, RecurrentLanguageModel):
            return _RecurrentBeams(self.decoder, *texts)
        return _RereadBeams(self.model, *texts, self.pad)


class _RereadBeams(RowBeams):
    """`Beams` for any language model of fairseq. Every step computes the whole text again."""

    def __init__(self, model, prompts: Tensor, lengths: Tensor, pad: int) -> None:
        self.model = model
        self.pad = pad
        self.text, self.lengths = prompts, lengths  # (R, P + T), (R,)

    def advance(self, tokens: Tensor, parents: Tensor | None) -> None:
        """See `Beams`. The first call ignores `tokens`: the prompts' last tokens are used."""
        self.follow(tokens, parents)
        if parents is not None:
            # Texts at the limit are done, but may still be in the batch.
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

    def select_rows(self, rows: Tensor) -> None:
        """See `RowBeams`."""
        self.text, self.lengths = self.text[rows], self.lengths[rows]


class _RecurrentBeams(RowBeams):
    """`Beams` for our recurrent language model: a step reads one token, from the states so far."""

    def __init__(self, model: RecurrentLanguageModel, prompts: Tensor, lengths: Tensor) -> None:
        self.model = model
        # PyTorch packs texts by lengths on the CPU: the one wait for the device, before the steps.
        features, self.states = model.read(prompts, None, lengths.cpu())
        last = torch.arange(len(prompts), device=prompts.device), lengths - 1
        self.features = features[last]  # (R, D)

    def advance(self, tokens: Tensor, parents: Tensor | None) -> None:
        """See `Beams`. The first call ignores `tokens`: the prompts' last tokens are used."""
        self.follow(tokens, parents)
        if parents is not None:
            features, self.states = self.model.read(tokens.reshape(-1, 1), self.states)
            self.features = features[:, 0]

    def logits(self, texts: slice) -> Tensor:
        """See `Beams`."""
        features = self.features.unflatten(0, (-1, self.beams))[texts]
        return self.model.project(features)

    def select_rows(self, rows: Tensor) -> None:
        """See `RowBeams`."""
        self.features = self.features[rows]
        self.states = [(h[rows], c[rows]) for h, c in self.states]
