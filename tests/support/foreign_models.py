"""Small models of fairseq's own that are no Transformers, as fairseq-generate prepares them."""

from argparse import Namespace

import torch
from fairseq.models import fconv, lstm
from fairseq.modules import BeamableMM


def make_convolutional(task, beam: int) -> fconv.FConvModel:
    """A small one with peaked logits, its products by beam switched on as fairseq-generate does."""
    torch.manual_seed(4)
    args = Namespace(
        encoder_embed_dim=12, decoder_embed_dim=12, decoder_out_embed_dim=12,
        encoder_layers="[(16, 3)] * 2", decoder_layers="[(16, 3)] * 2",
        max_source_positions=64, max_target_positions=64,
    )  # fmt: skip
    fconv.base_architecture(args)
    model = fconv.FConvModel.build_model(args, task)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    generation = Namespace(no_beamable_mm=False, beam=beam, print_alignment=None)
    model.eval().prepare_for_inference_(Namespace(generation=generation))
    assert [m.beam_size for m in model.modules() if isinstance(m, BeamableMM)] == [beam, beam]
    return model


def make_lstm(task, **changes) -> lstm.LSTMModel:
    """fairseq's, small, as fairseq-generate prepares it without --print-alignment."""
    torch.manual_seed(4)
    sizes = {"encoder_embed_dim": 12, "decoder_embed_dim": 12, "decoder_out_embed_dim": 12}
    sizes |= {"encoder_hidden_size": 12, "decoder_hidden_size": 12}
    criterion = "adaptive_loss" if "adaptive_softmax_cutoff" in changes else ""
    args = Namespace(**sizes, criterion=criterion, **changes)
    lstm.base_architecture(args)
    model = lstm.LSTMModel.build_model(args, task)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(6)
    model.eval().prepare_for_inference_(Namespace(generation=Namespace(print_alignment=None)))
    return model
