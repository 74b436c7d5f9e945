"""fairseq's task and model as what translates lines of subwords: takes every model of fairseq's."""

import argparse

import torch
from fairseq.models import BaseFairseqModel
from fairseq.tasks.translation import TranslationTask

from vaswani_plugin.cli._engine import BatchEngine


class FairseqEngine(BatchEngine):
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
        model = model.to(device=device, dtype=dtype)
        model.prepare_for_inference_(argparse.Namespace(generation=generation))
        generator = task.build_generator([model], generation)
        dictionaries = task.source_dictionary, task.target_dictionary
        super().__init__(model, generator, *dictionaries, device, batch_tokens)
        self.task = task

    def _generate(self, sample: dict) -> list[list[dict]]:
        return self.task.inference_step(self.generator, [self.model], sample)
