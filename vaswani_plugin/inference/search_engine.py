"""Our own search as an `Engine`.

Axes: B sentences of a batch, S longest source in tokens, P longest prefix, both with padding;
N layers, H heads, T target tokens.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.models import Loaded, LoadedRecurrent, longest_of
from vaswani_plugin.inference.results import Decoded, Tokens
from vaswani_plugin.modules.transformer import EncoderDecoder
from vaswani_plugin.search.models import Dictionary, Model, TransformerModel, padded
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.search.search import Search

if TYPE_CHECKING:
    from vaswani_plugin.inference.attention import RawAttention
    from vaswani_plugin.inference.forced import ForcedModel


def use_threads(count: int) -> None:
    """Let PyTorch use `count` CPU threads for the calls of this Python thread."""
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)


class TokenDictionary(Dictionary, Protocol):
    """A dictionary that can also write a hypothesis: ours and fairseq's."""

    def string(self, numbers: Any) -> str:
        """Symbols joined by spaces, without starts and ends of sentence."""


class SearchEngine(ABC):
    """Our search over one model; a subclass adds `attention`, and the model that scores targets.

    Args:
        model: of the search.
        longest: source and target in tokens, the ends of sentence included.
        source: dictionary.
        target: dictionary.
        device: where to decode.
        threads: of PyTorch on the CPU, for each call; None: as many as PyTorch has now.
    """

    def __init__(
        self,
        model: Model,
        longest: tuple[int, int],
        source: TokenDictionary,
        target: TokenDictionary,
        device: torch.device,
        threads: int | None = None,
    ) -> None:
        self.searched = model
        self.source, self.target = source, target
        self.threads = threads or torch.get_num_threads()
        self.device = device
        self.longest_source, self.longest_target = (length - 1 for length in longest)

    def decode(
        self,
        sources: Sequence[Tokens],
        options: SearchOptions,
        prefixes: Sequence[Tokens] | None = None,
        seed: int | None = None,
    ) -> list[list[Decoded]]:
        """See `Engine`.

        Raises:
            UserError: options that contradict each other, a prefix that is too long, or a batch
                that doesn't fit into the GPU's memory.
        """
        use_threads(self.threads)
        random = None
        if seed is not None:
            random = torch.Generator(self.device).manual_seed(seed)
        search = Search(
            [self.searched],
            self.target,
            options,
            with_attention=options.print_alignment is not None,
            random=random,
        )
        prefix = None
        if prefixes is not None:
            rows = [[*map(self.target.index, tokens)] for tokens in prefixes]
            prefix = padded(rows, self.target.pad(), self.device)
        return decode(search, source_rows(sources, self.source, self.device), self.target, prefix)

    def score(
        self, sources: Sequence[Tokens], targets: Sequence[Tokens]
    ) -> list[tuple[float, ...]]:
        """See `Engine`."""
        from vaswani_plugin.inference.forced import ForcedScorer  # translating needs none

        use_threads(self.threads)
        forced = ForcedScorer([self.forced_model()], self.source, self.target, self.device)
        encoded = [forced.encode(tokens, 0, f"source {n}") for n, tokens in enumerate(sources, 1)]
        golds = [[forced.encode(tokens, 1, f"target {n}")] for n, tokens in enumerate(targets, 1)]
        most = len(golds) * max(len(gold) for (gold,) in golds)  # all in one batch
        return [tuple(row) for (row,) in forced.score(encoded, golds, most)]

    @abstractmethod
    def forced_model(self) -> "ForcedModel":
        """The model that scores given targets."""


class TorchEngine(SearchEngine):
    """Our search over an encoder-decoder of `modules`.

    Args:
        loaded: the model and its dictionaries.
        device: where to decode.
        dtype: of the weights; None leaves them as they are.
        threads: of PyTorch on the CPU, for each call; None: as many as PyTorch has now.
    """

    def __init__(
        self,
        loaded: Loaded | LoadedRecurrent,
        device: torch.device,
        dtype: torch.dtype | None = None,
        threads: int | None = None,
    ) -> None:
        self.model = model = loaded.model.to(device=device, dtype=dtype)
        self.longest = longest_of(loaded.sizes)
        searched: Model
        if isinstance(model, EncoderDecoder):
            searched = TransformerModel(model)
        else:
            from vaswani_plugin.search.recurrent_models import RecurrentModel

            searched = RecurrentModel(model, self.longest[1])
        super().__init__(searched, self.longest, loaded.source, loaded.target, device, threads)

    def forced_model(self) -> "ForcedModel":
        """See `SearchEngine`."""
        from vaswani_plugin.inference.forced import ForcedEncoderDecoder

        return ForcedEncoderDecoder(self.model, self.longest)

    @torch.no_grad()
    def attention(self, source: Tokens, target: Tokens) -> "RawAttention":
        """See `Engine`.

        Raises:
            UserError: the model has no attention.
        """
        from vaswani_plugin.inference.attention import KINDS, RawAttention

        use_threads(self.threads)
        sides = (source, self.source), (target, self.target)
        ids = [[*map(dictionary.index, tokens)] for tokens, dictionary in sides]
        unknown = ids[0].count(self.source.unk()), ids[1].count(self.target.unk())
        tokens = torch.tensor([[*ids[0], self.source.eos()]], device=self.device)
        read = torch.tensor([[self.target.eos(), *ids[1]]], device=self.device)  # shifted right
        model = self.model
        if isinstance(model, EncoderDecoder):
            encoded = model.encoder(tokens, need_weights=True)
            decoded = model.decode(read, model.encode(tokens), need_weights=True)
            layers = encoded.self_weights, decoded.self_weights, decoded.cross_weights
            found = dict(zip(KINDS, map(torch.cat, layers), strict=True))  # (N, H, T, S)
        else:
            weights = model.decode(read, model.encode(tokens)).weights  # (1, T, S)
            if weights is None:
                raise UserError("this model has no attention to show: its decoder has none")
            found = {"cross": weights[None]}
        arrays = {kind: weights.float().cpu().numpy() for kind, weights in found.items()}
        return RawAttention(arrays, unknown)


def decode(
    search: Search, sources: Tensor, dictionary: TokenDictionary, prefix: Tensor | None = None
) -> list[list[Decoded]]:
    """The hypotheses of a batch.

    Args:
        search: over our model.
        sources: of `source_rows`.
        dictionary: of the target.
        prefix: the tokens that each output begins with, (B, P), padded on the right; None: the
            outputs begin freely.

    Raises:
        UserError: a prefix is too long, or the batch doesn't fit into the GPU's memory.
    """
    try:
        found = search.run(sources, prefix=prefix)
    except torch.OutOfMemoryError as error:
        sentences, longest = sources.shape
        raise UserError(
            f"the GPU's memory does not hold a batch of {sentences} sentences of up to {longest} "
            f"tokens: give less than --batch-tokens {sentences * longest} (batch_tokens in "
            f"Python), or decode on the CPU"
        ) from error
    return [
        [
            Decoded(
                tokens=tuple(dictionary.string(one["tokens"].tolist()).split()),
                score=float(one["score"]),
                token_scores=tuple(one["positional_scores"].float().tolist()),
                alignment=tuple((int(s), int(t)) for s, t in one["alignment"]),
            )
            for one in hypotheses
        ]
        for hypotheses in found
    ]


def source_rows(sources: Sequence[Tokens], dictionary: Dictionary, device: torch.device) -> Tensor:
    """Sources with their ends of sentence as numbers, (B, S), padded on the left."""
    rows = [[*map(dictionary.index, tokens), dictionary.eos()] for tokens in sources]
    return padded(rows, dictionary.pad(), device, on_the_left=True)
