"""Given targets scored by models that only fairseq builds, for `vaswani rescore`."""

import pytest
import torch
from fairseq.sequence_scorer import SequenceScorer
from foreign_models import make_convolutional, make_lstm
from search_setup import EOS, make_sample, make_translation_task

from vaswani_plugin.fairseq_plugin.generator import ForcedFairseqModel
from vaswani_plugin.inference.forced import ForcedScorer

SOURCES = [["w4"], ["w1", "w2", "w3"], ["w5", "w6", "w7", "w8", "w9", "w1"]]
TARGETS = [["w2", "w3"], [], ["w8", "w8", "w1", "w5"]]


@pytest.mark.parametrize("make", [lambda task: make_convolutional(task, 1), make_lstm])
def test_scores_in_a_batch_are_those_of_fairseqs_scorer_alone(make):
    task = make_translation_task(20)
    model, dictionary = make(task), task.target_dictionary
    forced = ForcedFairseqModel(model, dictionary.pad())
    scorer = ForcedScorer([forced], dictionary, dictionary, torch.device("cpu"))
    sources = [scorer.encode(source, 0, "source") for source in SOURCES]
    targets = [[scorer.encode(target, 1, "target")] for target in TARGETS]
    for source, (target,), (row,) in zip(
        sources, targets, scorer.score(sources, targets, 1000), strict=True
    ):
        sample = make_sample([source[:-1]])
        sample["target"] = torch.tensor([target])
        sample["net_input"]["prev_output_tokens"] = torch.tensor([[EOS, *target[:-1]]])
        ((expected,),) = SequenceScorer(dictionary).generate([model], sample)
        assert row == pytest.approx(expected["positional_scores"].tolist(), abs=1e-4)
    assert min(forced.longest) > 0
