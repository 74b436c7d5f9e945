"""Our search over fairseq's ConvS2S, as fairseq-generate prepares it, is fairseq's own search."""

import argparse
from types import SimpleNamespace

import pytest
import torch
from fairseq.models.fconv import FConvModel, base_architecture
from fairseq.modules import BeamableMM
from fairseq.sequence_generator import SequenceGenerator
from search_setup import make_generator, make_sample, make_translation_task, outputs_of

SOURCES = [[9, 12, 7], [11, 5, 5, 20, 9], [14], [6, 6, 7, 8, 9, 10, 11, 12], [23, 22]]


def make_convolutional(task, beam: int) -> FConvModel:
    """A small one with peaked logits, its products by beam switched on as fairseq-generate does."""
    torch.manual_seed(4)
    args = SimpleNamespace(
        encoder_embed_dim=12, decoder_embed_dim=12, decoder_out_embed_dim=12,
        encoder_layers="[(16, 3)] * 2", decoder_layers="[(16, 3)] * 2",
        max_source_positions=64, max_target_positions=64,
    )  # fmt: skip
    base_architecture(args)
    model = FConvModel.build_model(args, task)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    generation = argparse.Namespace(no_beamable_mm=False, beam=beam, print_alignment=None)
    model.eval().prepare_for_inference_(argparse.Namespace(generation=generation))
    sizes = [m.beam_size for m in model.modules() if isinstance(m, BeamableMM)]
    assert sizes == [beam, beam]
    return model


@pytest.mark.parametrize("beam", [1, 4])
def test_hypotheses_are_fairseqs(beam: int) -> None:
    task = make_translation_task(20, length_penalty="fairseq")
    model = make_convolutional(task, beam)
    options = {"max_len_a": 0, "max_len_b": 9}
    stock = SequenceGenerator([model], task.target_dictionary, beam_size=beam, **options)
    expected = stock.generate([model], make_sample(SOURCES))
    found = make_generator(task, [model], beam=beam, lenpen=1.0, **options).generate(
        [model], make_sample(SOURCES)
    )
    for mine, stocks in zip(found, expected, strict=True):
        assert [tokens for tokens, _ in outputs_of(mine)] == [t for t, _ in outputs_of(stocks)]
        scores = [score for _, score in outputs_of(stocks)]
        assert [score for _, score in outputs_of(mine)] == pytest.approx(scores, abs=2e-5)
