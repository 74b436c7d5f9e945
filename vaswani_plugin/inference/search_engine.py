"""Our own search as an `Engine`, over a model or an ensemble; it also scores given targets.

Axes: B sentences, S longest source, R pairs, T longest target, with padding; N layers, H heads.
"""

import math
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.checkpoints import Loaded
from vaswani_plugin.inference.runner import Hypothesis, Tokens
from vaswani_plugin.search.hypotheses import Found
from vaswani_plugin.search.models import EncoderDecoderModel, padded
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.search.search import Search, StartTracking
from vaswani_plugin.text.dictionary import Dictionary

if TYPE_CHECKING:
    from vaswani_plugin.inference.attention import RawAttention


PROCESS = os.getpid()
SCORED_TOGETHER = 1 << 22
"""Logits of given targets formed at a time: 16 MiB in float32."""


def use_threads(count: int) -> None:
    """Let PyTorch use `count` CPU threads for the calls of this Python thread.

    In a forked child it is one: OpenMP would wait for threads that only the parent has.
    """
    count = count if os.getpid() == PROCESS else 1
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)


class SearchEngine:
    """Our search over models with the same dictionaries: one, or the mean probabilities of several.

    `threads` are PyTorch's on the CPU, for each call; None: as many as PyTorch has now.
    """

    def __init__(
        self,
        models: list[EncoderDecoderModel],
        source: Dictionary,
        target: Dictionary,
        device: torch.device,
        threads: int | None = None,
    ) -> None:
        self.models, self.source, self.target = models, source, target
        self.threads = threads or torch.get_num_threads()
        self.device = device
        self.longest_source = min(model.longest_source for model in models) - 1
        self.longest_target = min(model.longest_target for model in models) - 1

    def decode(
        self,
        sources: Sequence[Tokens],
        options: SearchOptions,
        seed: int | None = None,
        start_tracking: tuple[StartTracking, ...] = (),
    ) -> list[list[Hypothesis]]:
        """See `Engine`; also a `UserError` where a batch doesn't fit into the GPU's memory."""
        use_threads(self.threads)
        random = torch.Generator(self.device)  # threads share the process's
        random.manual_seed(random.seed() if seed is None else seed)
        search = Search(
            [*self.models], self.target, options, start_tracking=start_tracking, random=random
        )
        rows = source_rows(sources, self.source, self.device)
        try:
            hypotheses = search.run(rows)
        except torch.OutOfMemoryError as error:
            sentences, longest = rows.shape
            raise UserError(
                f"the GPU's memory does not hold {sentences} sentences of up to {longest} tokens: "
                f"give less than --batch-tokens {sentences * longest}, or decode on the CPU"
            ) from error
        return [list(map(self._decoded, of_source)) for of_source in hypotheses]

    def _decoded(self, hypothesis: Found) -> Hypothesis:
        return Hypothesis(
            text="",
            tokens=tuple(self.target.string(hypothesis.tokens.tolist()).split()),
            score=float(hypothesis.score),
            token_scores=tuple(hypothesis.positional_scores.float().tolist()),
            alignment=tuple((int(s), int(t)) for s, t in hypothesis.alignment),
        )

    @torch.no_grad()
    def score(
        self, sources: Sequence[Tokens], targets: Sequence[Tokens]
    ) -> list[tuple[float, ...]]:
        """See `Engine`. A source that occurs repeatedly is encoded once."""
        use_threads(self.threads)
        places: dict[Tokens, int] = {}  # of the sources
        rows = [places.setdefault(tuple(source), len(places)) for source in sources]
        index, pad, end = self.target.index, self.target.pad(), self.target.eos()
        golds = [[*map(index, tokens), end] for tokens in targets]
        previous = padded([[end, *gold[:-1]] for gold in golds], pad, self.device)  # (R, T)
        numbers = source_rows([*places], self.source, self.device)
        pairs = numbers, torch.tensor(rows, device=self.device), previous
        target = padded(golds, pad, self.device)
        log_p = [self.log_probabilities(model, *pairs, target) for model in self.models]
        mean = torch.stack(log_p).logsumexp(dim=0) - math.log(len(log_p))
        return [tuple(row[: len(gold)]) for row, gold in zip(mean.tolist(), golds, strict=True)]

    @staticmethod
    def log_probabilities(
        model: Any, sources: Tensor, rows: Tensor, previous: Tensor, target: Tensor
    ) -> Tensor:
        """log P of each token of given targets, (R, T); values at padding are undefined.

        `sources` (B, S) are padded on the left; `rows` (R,) are those of each target, which is
        given shifted right, too, as `previous`: both (R, T), padded on the right.
        """
        memory, decoder = model.model.encode(sources).select(rows), model.decoder
        features = model.model.decode(previous, memory, right_padded=True).features  # (R, T, D)
        flat, gold = features.flatten(0, 1), target.flatten()
        vocabulary = decoder.projection.weight.size(0)
        log_p = projected_log_probabilities(flat, gold, decoder.project, vocabulary)
        return log_p.view(target.shape)


def projected_log_probabilities(
    features: Tensor, targets: Tensor, project: Callable[[Tensor], Tensor], vocabulary: int
) -> Tensor:
    """Compute log P of each target in chunks: the logits are never in memory all at once.

    `features` (N, D) are the decoder's, `targets` (N,) numbers of tokens; `project` makes logits
    (n, V) of (n, D). Returns natural logarithms (N,), at least in float32.
    """
    rows = max(1, SCORED_TOGETHER // vocabulary)
    log_p = []
    for x, gold in zip(torch.split(features, rows), torch.split(targets, rows), strict=True):
        logits = project(x)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        log_p.append(-F.cross_entropy(logits, gold, reduction="none"))
    return torch.cat(log_p)


@torch.inference_mode(False)
def moved(model: Any, device: str | torch.device, dtype: str | torch.dtype | None) -> Any:
    """Move a model to a device and a type, such as "bfloat16", which it gets; None: its own."""
    try:
        torch.zeros(1, device=device).item()
    except (AssertionError, RuntimeError) as error:
        raise UserError(f"device is {str(device)!r}, which can't compute here: give cpu") from error
    name = str(dtype).removeprefix("torch.")
    known = getattr(torch, name, None)
    if dtype is not None and not (isinstance(known, torch.dtype) and known.is_floating_point):
        raise UserError(f"dtype is {name!r}, which is no type of weights: give float16")
    return model.to(device=device, dtype=dtype and known)


class TorchEngine(SearchEngine):
    """Our search over an encoder-decoder of `modules`, moved to a device and a type of weights."""

    def __init__(
        self,
        loaded: Loaded,
        device: str | torch.device,
        dtype: str | torch.dtype | None = None,
        threads: int | None = None,
    ) -> None:
        self.model = moved(loaded.model, device, dtype)
        models = [loaded.family.searched(self.model)]
        super().__init__(models, loaded.source, loaded.target, torch.device(device), threads)

    @torch.no_grad()
    def attention(self, source: Tokens, target: Tokens) -> "RawAttention":
        """See `Engine`."""
        from vaswani_plugin.inference.attention import RawAttention

        use_threads(self.threads)
        sides = (source, self.source), (target, self.target)
        ids = [[*map(dictionary.index, tokens)] for tokens, dictionary in sides]
        unknown = ids[0].count(self.source.unk()), ids[1].count(self.target.unk())
        tokens = torch.tensor([[*ids[0], self.source.eos()]], device=self.device)
        shifted = torch.tensor([[self.target.eos(), *ids[1]]], device=self.device)
        model: Any = self.models[0]
        weights = model.attention(tokens, shifted)
        arrays = {kind: heads.float().cpu().numpy() for kind, heads in weights.items()}
        return RawAttention(arrays, unknown)


def source_rows(sources: Sequence[Tokens], dictionary: Dictionary, device: torch.device) -> Tensor:
    """Sources with their ends of sentence as numbers, (B, S), padded on the left."""
    rows = [[*map(dictionary.index, tokens), dictionary.eos()] for tokens in sources]
    return padded(rows, dictionary.pad(), device, on_the_left=True)
