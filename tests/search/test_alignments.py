"""Alignments out of attention, and of models whose attention is a tensor: ConvS2S and LSTM."""

import argparse

import pytest
import torch
from fairseq import utils
from fairseq.sequence_generator import SequenceGeneratorWithAlignment
from foreign_models import make_convolutional, make_lstm
from hypothesis import given, settings
from hypothesis import strategies as st
from model_factory import make_model
from recurrent_models import KINDS, make_recurrent
from search_setup import EOS, PAD, make_generator, make_sample, make_translation_task

from vaswani_plugin.search.search import hard_alignment

SOURCES = [[11, 5, 5, 20, 9], [9, 12, 7], [14]]
TOKENS = st.lists(st.sampled_from([PAD, EOS, 4, 5, 6]), min_size=1, max_size=7)


@settings(deadline=None)
@given(TOKENS, TOKENS, st.integers(0, 1000))
def test_hard_ones_are_fairseqs(source, target, seed):
    generator = torch.Generator().manual_seed(seed)
    attention = torch.rand(len(target), len(source), generator=generator).softmax(dim=1)
    rows = torch.tensor(source), torch.tensor(target), PAD, EOS
    expected = utils.extract_hard_alignment(attention.clone(), *rows)  # it writes into it
    assert hard_alignment(attention, *rows) == expected


@pytest.fixture(scope="module")
def task():
    return make_translation_task(20)


def make_fconv(task):
    return make_convolutional(task, beam=2)


ATTENTIVE = ["attention"] if KINDS else []


@pytest.mark.parametrize("kind", ["hard", "soft"])
@pytest.mark.parametrize("make", [make_lstm, make_fconv])
def test_alignments_are_those_of_a_full_forward_pass(task, make, kind):
    model = make(task)
    flags = {"beam": 2, "max_len_a": 0, "max_len_b": 6, "print_alignment": kind}
    generator = make_generator(task, [model], **flags)
    for source in SOURCES:  # one by one: fairseq's LSTM moves padding to the right
        (hypotheses,) = generator.generate([model], make_sample([source]))
        for hypothesis in hypotheses:
            tokens = hypothesis["tokens"]
            sources = torch.tensor([[*source, EOS]])
            shifted = torch.tensor([[EOS, *tokens.tolist()[:-1]]])
            _, attention = model(sources, torch.tensor([sources.size(1)]), shifted)
            own = hypothesis["attention"].T
            torch.testing.assert_close(own, attention[0], atol=1e-5, rtol=1e-4)
            extract = getattr(utils, f"extract_{kind}_alignment")
            expected = extract(own.clone(), sources[0], tokens, PAD, EOS)
            assert hypothesis["alignment"] == expected
            assert len(expected) == len(tokens) - (kind == "hard")


def test_padding_does_not_shift_alignments(task):
    model = make_fconv(task)
    generator = make_generator(task, [model], print_alignment="hard", max_len_a=0, max_len_b=6)
    in_a_batch = task.inference_step(generator, [model], make_sample(SOURCES))
    for source, found in zip(SOURCES, in_a_batch, strict=True):
        (alone,) = task.inference_step(generator, [model], make_sample([source]))
        assert found[0]["tokens"].tolist() == alone[0]["tokens"].tolist()
        assert found[0]["alignment"] == alone[0]["alignment"]


@pytest.mark.parametrize("kind", ["fconv", "lstm", "ours", *ATTENTIVE])
def test_fairseqs_own_generator_aligns_too(task, kind):
    make = {"fconv": make_fconv, "lstm": make_lstm, "ours": make_model}
    model = make[kind](task) if kind in make else make_recurrent(kind, task)
    flags = {"diversity_rate": 0.5, "print_alignment": "hard", "max_len_a": 0, "max_len_b": 6}
    generator = task.build_generator([model], argparse.Namespace(**flags))
    assert isinstance(generator, SequenceGeneratorWithAlignment)
    found = task.inference_step(generator, [model], make_sample(SOURCES))
    for source, (best, *_) in zip(SOURCES, found, strict=True):
        assert [t for _, t in best["alignment"]] == list(range(len(best["tokens"]) - 1))
        assert {s for s, _ in best["alignment"]} <= set(range(len(source)))


def test_no_attention_is_kept_that_nobody_reads(task):
    """Hypotheses would carry it from step to step."""
    for model in (make_lstm(task), *(make_recurrent(kind, task) for kind in ATTENTIVE)):
        ((best, *_),) = make_generator(task, [model]).generate([model], make_sample([[5, 6]]))
        assert best["attention"].numel() == 0
