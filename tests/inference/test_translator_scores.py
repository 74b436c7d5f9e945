"""`Translator.score` and `.attention` beside fairseq's `SequenceScorer` and a full forward pass."""

import os
import subprocess
import sys
from argparse import Namespace

import numpy as np
import pytest
import torch
from fairseq.sequence_scorer import SequenceScorer
from model_factory import attention_weights
from search_setup import make_sample
from toy_bundle import POSITIONS, SENTENCES, load_by_fairseq, write_toy_bundle

from tests.conftest import REPO, ancestors
from vaswani_plugin import Translator
from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.models.transformer import VaswaniTransformer

PAIRS = [
    ("The old doctor's friends.", "The tired farmer was happy."),
    ("a bird", "a pear &"),
    ("Why are the children singing?", ""),
    ("It rained; the cat slept.", "Over the green hills, small clouds"),
]
UNUSED = {"fairseq", "torch._dynamo", "ctranslate2", "onnxruntime", "starlette", "matplotlib"}
UNUSED |= {"jinja2", "safetensors"}
OURS = "serving figures export fairseq_plugin inference.completion text.trees text.coding"
OURS += " ancestors modules.parser inference.attention kernels.fused_loss"
OURS += " search.well_formed search.text_model kernels.layers"
UNUSED |= {f"vaswani_plugin.{name}" for name in OURS.split()}
"""What a translation does not import."""
LSTM = ("--arch", "vaswani_attention_lstm_tiny", "--d-model", "16", "--share-embeddings", "none")


@pytest.fixture(scope="module")
def lstm(tmp_path_factory):
    """A bundle of a recurrent ancestor."""
    return write_toy_bundle(tmp_path_factory.mktemp("lstm"), model=LSTM)


@pytest.fixture(scope="module", params=["toy_bundle", pytest.param("lstm", marks=ancestors)])
def translator(request):
    return Translator.from_pretrained(request.getfixturevalue(request.param))


def by_fairseq(folder, translator, source, target):
    """Token scores of fairseq's own scorer."""
    model, task = load_by_fairseq(folder)
    ids = [
        [side.index(token) for token in pipeline.encode(text).split()]
        for side, text, pipeline in (
            (task.source_dictionary, source, translator.pipeline),
            (task.target_dictionary, target, translator.pipeline.of_target()),
        )
    ]
    eos = task.target_dictionary.eos()
    sample = make_sample([ids[0]])
    sample["target"] = torch.tensor([[*ids[1], eos]])
    sample["net_input"]["prev_output_tokens"] = torch.tensor([[eos, *ids[1]]])
    ((found,),) = SequenceScorer(task.target_dictionary).generate([model], sample)
    return found["positional_scores"].tolist()


def test_scores_are_those_of_fairseqs_scorer(translator):
    """In two batches, of which one is padded."""
    own = translator.pipeline.folder
    found = translator.score(PAIRS, batch_tokens=60)
    for (source, target), score in zip(PAIRS, found, strict=True):
        expected = by_fairseq(own, translator, source, target)
        assert score.token_scores == pytest.approx(expected, abs=1e-4)
        assert score.log_probability == pytest.approx(sum(expected), abs=1e-4)
        assert score.tokens == tuple(translator.pipeline.of_target().encode(target).split())
    assert len({round(score.log_probability, 3) for score in found}) == len(PAIRS)


def test_pairs_that_do_not_fit_are_named(translator):
    long = " ".join(SENTENCES)
    for pair, part in (
        (("", "a bird"), "source 2 is an empty sentence"),
        *((pair, "pair 2 is no") for pair in ("ab", ("a bird",), ("a bird", "a pear", "a"))),
        (("a bird", long), rf"target 2 has \d+ subwords, the model takes {POSITIONS - 1}"),
    ):
        with pytest.raises(UserError, match=part):
            translator.score([PAIRS[0], pair])
    assert translator.score([]) == []


def test_attention_is_that_of_a_full_pass(translator):
    model, task = load_by_fairseq(translator.pipeline.folder)
    attention = translator.attention("the cat and a bird", "the tired farmer")
    cross = attention.kinds["cross"]
    source = torch.tensor([[task.source_dictionary.index(token) for token in cross.keys]])
    predicted = [task.target_dictionary.index(token) for token in cross.queries]
    read = torch.tensor([[predicted[-1], *predicted[:-1]]])
    if isinstance(model, VaswaniTransformer):
        expected = attention_weights(model, source, read)
    else:
        expected = {"cross": [model(source, None, read)[1]["attn"][0][:, None].detach()]}
    assert attention.kinds.keys() == expected.keys()
    for kind, layers in expected.items():
        weights = attention.kinds[kind].weights
        np.testing.assert_allclose(weights, torch.cat(layers).numpy(), atol=1e-5)
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert cross.keys[-1] == cross.queries[-1] == "</s>"
    merged = attention.merged(translator.pipeline.subwords).kinds["cross"]
    assert merged.keys == ["the", "cat", "and", "a", "bird", "</s>"]
    assert attention.target == "the tired farmer" and attention.unknown == (0, 0)
    assert translator.attention("\u0e01 bird", "\u0e01 pear \u0e02").unknown == (1, 2)


@ancestors
def test_a_recurrent_ancestor_translates_as_its_fairseq_model_does(lstm):
    """Our search over `modules` finds what fairseq's generator finds over the registered model."""
    model, task = load_by_fairseq(lstm)
    translator = Translator.from_pretrained(lstm)
    options = {"beam": 3, "nbest": 3, "align": True, "one_sentence": True, "long": "truncate"}
    generator = task.build_generator([model], Namespace(beam=3, print_alignment="hard"))
    for found in translator.translate(SENTENCES, **options):
        tokens = found.source_tokens[: translator.longest_source]
        sample = make_sample([[task.source_dictionary.index(token) for token in tokens]])
        (expected,) = task.inference_step(generator, [model], sample)
        for mine, theirs in zip(found.hypotheses, expected, strict=True):
            words = task.target_dictionary.string(theirs["tokens"]).split()
            assert (list(mine.tokens), mine.score) == (words, pytest.approx(float(theirs["score"])))
            assert [list(pair) for pair in mine.alignment] == [list(p) for p in theirs["alignment"]]


def test_a_translation_imports_what_it_needs(toy_bundle):
    program = f"""
import sys
from vaswani_plugin import Translator
print("torch" in sys.modules)
Translator.from_pretrained({str(toy_bundle)!r}).translate("the cat")
print(sorted(sys.modules.keys() & {UNUSED!r}))
"""
    environment = os.environ | {"PYTHONPATH": str(REPO), "VASWANI_KERNELS": "search"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
    assert done.stdout.decode() == "False\n[]\n", done.stderr.decode()
