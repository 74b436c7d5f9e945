"""What translates lines of subwords for `vaswani translate`: the protocol, and fairseq's search.

Axes: B sentences of a batch, S their longest source in tokens, end of sentence included.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from fairseq.data.data_utils import collate_tokens
from fairseq.models import BaseFairseqModel
from fairseq.tasks.translation import TranslationTask
from torch import Tensor


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


class FairseqEngine:
    """The task's own generator, as fairseq-interactive drives it.

    Args:
        model: on the CPU.
        task: builds the generator and knows the dictionaries.
        device: where to decode.
        dtype: of the weights, such as torch.float32.
        batch_tokens: most source tokens of a batch, padding included.
        align: also give the alignments.
        beam: width of the beam.
        lenpen: alpha of the length penalty.
        nbest: how many hypotheses will be looked at; None: all.
    """

    def __init__(
        self,
        model: BaseFairseqModel,
        task: TranslationTask,
        device: torch.device,
        dtype: torch.dtype,
        batch_tokens: int,
        align: bool,
        beam: int,
        lenpen: float,
        nbest: int | None = None,
    ) -> None:
        alignment = "hard" if align else None
        generation = argparse.Namespace(
            beam=beam, lenpen=lenpen, nbest=nbest, print_alignment=alignment
        )
        self.model = model.to(device=device, dtype=dtype)
        self.model.prepare_for_inference_(argparse.Namespace(generation=generation))
        self.task = task
        self.device = device
        self.batch_tokens = batch_tokens
        self.generator = task.build_generator([self.model], generation)
        self.longest = model.max_positions()[0] - 1

    def translate(self, lines: list[str]) -> list[list[Hypothesis]]:
        """See `Engine`.

        Raises:
            ValueError: a batch doesn't fit into the GPU's memory.
        """
        sources, lengths = self.task.get_interactive_tokens_and_lengths(lines, lambda line: line)
        found: dict[int, list[Hypothesis]] = {}
        for batch in batches_by_length(lengths, self.batch_tokens):
            decoded = self._decode([sources[number] for number in batch])
            for number, hypotheses in zip(batch, decoded, strict=True):
                found[number] = [self._readable(hypothesis) for hypothesis in hypotheses]
        return [found[number] for number in range(len(lines))]

    def _decode(self, sources: list[Tensor]) -> list[list[dict]]:
        dictionary = self.task.source_dictionary
        padded = collate_tokens(sources, dictionary.pad(), dictionary.eos(), left_pad=True)
        lengths = torch.tensor([len(source) for source in sources])
        net_input = {
            "src_tokens": padded.to(self.device),  # (B, S)
            "src_lengths": lengths.to(self.device),  # (B,)
        }
        try:
            return self.task.inference_step(self.generator, [self.model], {"net_input": net_input})
        except torch.OutOfMemoryError as error:
            raise ValueError(
                f"the GPU's memory does not hold a batch of {len(sources)} sentences of up to "
                f"{len(sources[0])} tokens: give less than --batch-tokens "
                f"{self.batch_tokens}, or --cpu"
            ) from error

    def _readable(self, hypothesis: dict[str, Tensor]) -> Hypothesis:
        # The dictionary's own text, as fairseq prints it, without the end of sentence.
        text = self.task.target_dictionary.string(hypothesis["tokens"].tolist())
        return Hypothesis(
            tokens=text.split(),
            score=float(hypothesis["score"]),
            positional_scores=hypothesis["positional_scores"].float().tolist(),
            alignment=[tuple(pair) for pair in hypothesis["alignment"]],
        )
