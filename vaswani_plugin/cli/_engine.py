"""What translates lines of subwords for `vaswani translate`: the protocol, and our search.

Axes: B sentences of a batch, S their longest source in tokens, end of sentence included.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from vaswani_plugin.inference.bundle import Loaded
from vaswani_plugin.search.dictionary import Dictionary
from vaswani_plugin.search.generator import BeamSearchGenerator
from vaswani_plugin.search.options import SearchOptions


@dataclass(frozen=True)
class Hypothesis:
    """One translation in the model's subwords.

    Args:
        tokens: the subwords, without an end of sentence.
        score: log P / length penalty, natural logarithm.
        positional_scores: log P of each token, then of the end of sentence.
        alignment: (source, target) positions; empty where it was not asked for.
    """

    tokens: list[str]
    score: float
    positional_scores: list[float]
    alignment: list[tuple[int, int]]


class Engine(Protocol):
    """What an engine has to offer."""

    longest: int
    """Most subwords that a line may have."""

    def translate(self, lines: list[str]) -> list[list[Hypothesis]]:
        """Translate lines of subwords, none of them empty or too long.

        Returns:
            For each line, in the order given, its hypotheses, the best one first.
        """


def batches_by_length(lengths: list[int], most: int) -> Iterator[list[int]]:
    """Numbers of the sentences of each batch, neighbours in length, the longest ones first.

    Args:
        lengths: tokens of each sentence.
        most: tokens of a batch, padding included; a longer sentence is a batch of its own.
    """
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda n: -lengths[n]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > most:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


class BatchEngine:
    """An `Engine` over a generator of hypotheses.

    Args:
        model: on the device; its `max_positions` says how long a source may be.
        generator: has `generate(models, sample)`, as `search.generator` has it.
        source: dictionary.
        target: dictionary; its `string` writes a hypothesis.
        device: where to decode.
        batch_tokens: most source tokens of a batch, padding included.
    """

    def __init__(
        self,
        model: nn.Module,
        generator: Any,
        source: Dictionary,
        target: Dictionary,
        device: torch.device,
        batch_tokens: int,
    ) -> None:
        self.model = model
        self.generator = generator
        self.source, self.target = source, target
        self.device = device
        self.batch_tokens = batch_tokens
        self.longest = model.max_positions()[0] - 1

    def translate(self, lines: list[str]) -> list[list[Hypothesis]]:
        """See `Engine`.

        Raises:
            ValueError: a batch doesn't fit into the GPU's memory.
        """
        sources = [[*map(self.source.index, line.split()), self.source.eos()] for line in lines]
        found: dict[int, list[Hypothesis]] = {}
        for batch in batches_by_length([len(source) for source in sources], self.batch_tokens):
            decoded = self._decode([sources[number] for number in batch])
            for number, hypotheses in zip(batch, decoded, strict=True):
                found[number] = [self._readable(hypothesis) for hypothesis in hypotheses]
        return [found[number] for number in range(len(lines))]

    def _decode(self, sources: list[list[int]]) -> list[list[dict]]:
        longest = max(map(len, sources))
        # Padded on the left, as fairseq's translation task does.
        padded = [[self.source.pad()] * (longest - len(row)) + row for row in sources]
        net_input = {
            "src_tokens": torch.tensor(padded, device=self.device),  # (B, S)
            "src_lengths": torch.tensor([len(row) for row in sources], device=self.device),  # (B,)
        }
        try:
            return self._generate({"net_input": net_input})
        except torch.OutOfMemoryError as error:
            raise ValueError(
                f"the GPU's memory does not hold a batch of {len(sources)} sentences of up to "
                f"{longest} tokens: give less than --batch-tokens "
                f"{self.batch_tokens}, or --cpu"
            ) from error

    def _generate(self, sample: dict) -> list[list[dict]]:
        return self.generator.generate([self.model], sample)

    def _readable(self, hypothesis: dict[str, Tensor]) -> Hypothesis:
        # The dictionary's own text, as fairseq prints it, without the end of sentence.
        text = self.target.string(hypothesis["tokens"].tolist())
        return Hypothesis(
            tokens=text.split(),
            score=float(hypothesis["score"]),
            positional_scores=hypothesis["positional_scores"].float().tolist(),
            alignment=[tuple(pair) for pair in hypothesis["alignment"]],
        )


class SearchEngine(BatchEngine):
    """Our search over a Transformer that was loaded without fairseq.

    Args:
        loaded: the model and its dictionaries.
        options: of the search.
        device: where to decode.
        dtype: of the weights, such as torch.float32.
        batch_tokens: most source tokens of a batch, padding included.
    """

    def __init__(
        self,
        loaded: Loaded,
        options: SearchOptions,
        device: torch.device,
        dtype: torch.dtype,
        batch_tokens: int,
    ) -> None:
        model = loaded.model.to(device=device, dtype=dtype)
        model.decoder.alignment_wanted = options.print_alignment is not None
        generator = BeamSearchGenerator([model], loaded.target, options)
        super().__init__(model, generator, loaded.source, loaded.target, device, batch_tokens)
