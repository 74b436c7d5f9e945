"""Alignments of models whose attention is a tensor: fairseq's ConvS2S and LSTM."""

import argparse

import pytest
import torch
from fairseq import utils
from fairseq.sequence_generator import SequenceGeneratorWithAlignment
from foreign_models import make_convolutional, make_lstm
from model_factory import make_model
from recurrent_models import make_recurrent
from search_setup import EOS, PAD, make_generator, make_sample, make_translation_task

from tests.conftest import run_module, write_toy_corpus
from vaswani_plugin.errors import UserError

SOURCES = [[11, 5, 5, 20, 9], [9, 12, 7], [14]]


@pytest.fixture(scope="module")
def task():
    return make_translation_task(20)


def make_fconv(task):
    return make_convolutional(task, beam=2)


@pytest.mark.parametrize("make", [make_lstm, make_fconv])
@pytest.mark.parametrize("flag", [{"print_alignment": "hard"}, {"replace_unk": ""}], ids=str)
def test_alignments_are_those_of_a_full_forward_pass(task, make, flag):
    model = make(task)
    generator = make_generator(task, [model], beam=2, max_len_a=0, max_len_b=6, **flag)
    for source in SOURCES:  # one by one: fairseq's LSTM moves padding to the right
        (hypotheses,) = generator.generate([model], make_sample([source]))
        for hypothesis in hypotheses:
            tokens = hypothesis["tokens"]
            sources = torch.tensor([[*source, EOS]])
            shifted = torch.tensor([[EOS, *tokens.tolist()[:-1]]])
            _, attention = model(sources, torch.tensor([sources.size(1)]), shifted)
            own = hypothesis["attention"].T
            torch.testing.assert_close(own, attention[0], atol=1e-5, rtol=1e-4)
            expected = utils.extract_hard_alignment(attention[0], sources[0], tokens, PAD, EOS)
            assert hypothesis["alignment"] == expected
            assert len(expected) == len(tokens) - 1


@pytest.mark.parametrize("make", [make_lstm, make_fconv])
def test_padding_does_not_shift_alignments(task, make):
    model = make(task)
    generator = make_generator(task, [model], print_alignment="hard", max_len_a=0, max_len_b=6)
    in_a_batch = task.inference_step(generator, [model], make_sample(SOURCES))
    for source, found in zip(SOURCES, in_a_batch, strict=True):
        (alone,) = task.inference_step(generator, [model], make_sample([source]))
        assert found[0]["tokens"].tolist() == alone[0]["tokens"].tolist()
        assert found[0]["alignment"] == alone[0]["alignment"]


@pytest.mark.parametrize("kind", ["fconv", "lstm", "ours", "attention"])
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


def test_no_work_for_attention_that_nobody_reads(task):
    model = make_lstm(task)
    ((best, *_),) = make_generator(task, [model]).generate([model], make_sample([[5, 6]]))
    assert best["attention"].numel() == 0


def test_a_model_without_attention_says_so(task):
    models = [make_lstm(task, decoder_attention="0"), make_recurrent("seq2seq", task)]
    for model in models:
        for flag in ({"print_alignment": "soft"}, {"replace_unk": ""}):
            with pytest.raises(UserError, match="no attention.*drop --print-alignment"):
                make_generator(task, [model], **flag)
        make_generator(task, [model])
    attentive = make_recurrent("attention", task)
    make_generator(task, [models[1], attentive], print_alignment="hard")  # one has


def test_fairseqs_commands_replace_unknown_words(run_fairseq, tmp_path):
    """A convolutional model over two words, so that it writes <unk>."""
    text, data = tmp_path / "text", tmp_path / "data"
    text.mkdir()
    write_toy_corpus(text)
    made = run_module(
        *("fairseq_cli.preprocess", "--source-lang", "src", "--target-lang", "tgt"),
        *("--trainpref", text / "train", "--validpref", text / "valid", "--destdir", data),
        *("--nwordstgt", 6, "--padding-factor", 1, "--workers", 1),
    )
    assert made.returncode == 0, made.stderr
    for side in ("src", "tgt"):
        lines = (text / f"test.{side}").read_text().splitlines()[:5]
        (data / f"test.src-tgt.{side}").write_text("".join(f"{line}\n" for line in lines))
    run = run_fairseq(
        *("train", data, "--task", "vaswani_translation", "--arch", "fconv", "--cpu"),
        *("--encoder-embed-dim", 16, "--decoder-embed-dim", 16, "--decoder-out-embed-dim", 16),
        *("--encoder-layers", "[(16, 3)]", "--decoder-layers", "[(16, 3)]"),
        *("--max-tokens", 400, "--max-update", 2, "--save-dir", tmp_path, "--num-workers", 0),
        *("--no-epoch-checkpoints", "--lr-factor", 9),
    )
    assert run.returncode == 0, run.stderr
    common = ("generate", data, "--task", "vaswani_translation", "--cpu", "--dataset-impl", "raw")
    common += ("--path", tmp_path / "checkpoint_last.pt", "--results-path", tmp_path)
    common += ("--unkpen", -100, "--max-len-a", 0, "--max-len-b", 4)
    run = run_fairseq(*common, "--replace-unk", "--print-alignment")
    assert run.returncode == 0, run.stderr
    lines = (tmp_path / "generate-test.txt").read_text().splitlines()
    fields = {line.partition("\t")[0]: line.split("\t")[-1] for line in lines}
    for number in range(5):
        source, output = (fields[f"{kind}-{number}"].split() for kind in "SH")
        pairs = [pair.split("-") for pair in fields[f"A-{number}"].split()]
        assert "<unk>" not in output and len(output) == 4
        assert output == [source[int(place)] for place, _ in pairs]
