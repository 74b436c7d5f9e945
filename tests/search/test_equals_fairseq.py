"""With `--length-penalty fairseq`, our search is fairseq's generator, hypothesis for hypothesis."""

import re

import pytest
import torch
from fairseq.models import FairseqDecoder, FairseqEncoderDecoderModel
from fairseq.search import PrefixConstrainedBeamSearch
from fairseq.sequence_generator import SequenceGenerator
from foreign_models import make_convolutional
from model_factory import make_model, make_stock_twin, make_task
from search_setup import (
    PAD,
    make_generator,
    make_peaked_model,
    make_sample,
    make_translation_task,
    outputs_of,
)

from tests.search.test_beam_search import eager_to_end

SYMBOLS = 20
SOURCES = [[9, 12, 7], [11, 5, 5, 20, 9], [14], [6, 6, 7, 8, 9, 10, 11, 12], [23, 22]]
FAIRSEQ_NAMES = {"beam": "beam_size", "lenpen": "len_penalty", "unkpen": "unk_penalty"}


@pytest.fixture(scope="module")
def task():
    return make_translation_task(SYMBOLS, length_penalty="fairseq")


def fairseq_generator(task, models, options):
    settings = {FAIRSEQ_NAMES.get(name, name): value for name, value in options.items()}
    if settings.pop("unnormalized", False):
        settings["normalize_scores"] = False
    if choose := settings.pop("prefix_allowed_tokens_fn", None):
        settings["search_strategy"] = PrefixConstrainedBeamSearch(task.target_dictionary, choose)
    return SequenceGenerator(models, task.target_dictionary, **settings)


def assert_equal(ours, theirs):
    assert len(ours) == len(theirs)
    for mine, stocks in zip(ours, theirs, strict=True):
        assert [t for t, _ in outputs_of(mine)] == [t for t, _ in outputs_of(stocks)]
        for own, other in zip(mine, stocks, strict=True):
            for name in ("score", "positional_scores"):
                torch.testing.assert_close(own[name], other[name], atol=2e-5, rtol=1e-5)


OPTIONS = [{"beam": 4}, {"beam": 1}, {"beam": 10, "lenpen": 0.6}, {"beam": 23}, {"lenpen": -1.0}]
OPTIONS += [{"unnormalized": True}, {"min_len": 4}, {"unkpen": 3.0, "temperature": 1.5}]
OPTIONS += [{"max_len_a": 0.0, "max_len_b": 3}]
# fairseq's search of them loses beams where one may end and others go on
OPTIONS += [{"prefix_allowed_tokens_fn": lambda n, t: [2] if len(t) > 2 + n else range(4, 24)}]


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("left_pad", [True, False])
def test_our_models(task, options, left_pad):
    options = {"beam": 4, "lenpen": 1.0, "max_len_a": 1.0, "max_len_b": 5, **options}
    lengths = set()
    for seed, eagerness in ((0, 2.0), (1, 5.0), (2, 9.0)):
        model = eager_to_end(make_peaked_model(SYMBOLS, seed), eagerness)
        sample = make_sample(SOURCES, left_pad)
        theirs = fairseq_generator(task, [model], options).generate([model], sample)
        ours = make_generator(task, [model], **options).generate([model], sample)
        assert_equal(ours, theirs)
        lengths |= {len(tokens) for hypotheses in ours for tokens, _ in outputs_of(hypotheses)}
    assert len(lengths) > 1


@pytest.mark.parametrize(
    "prefix",
    [
        [[5], [6], [7], [8], [9]],
        [[5, 6, 7], [6, PAD, PAD], [7, 8, PAD], [PAD, PAD, PAD], [9, 9, 9]],
        [[5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]] * 5,
    ],
    ids=["same length", "different lengths", "past the limit"],
)
def test_prefixes(task, prefix):
    options = {"beam": 4, "lenpen": 1.0, "max_len_a": 0.0, "max_len_b": 8}
    model = eager_to_end(make_peaked_model(SYMBOLS), 4.0)
    sample, prefix = make_sample(SOURCES), torch.tensor(prefix)
    theirs = fairseq_generator(task, [model], options)
    theirs = theirs.generate([model], sample, prefix_tokens=prefix)
    ours = make_generator(task, [model], **options)
    assert_equal(ours.generate([model], sample, prefix_tokens=prefix), theirs)


class WithoutState(FairseqDecoder):
    """A decoder that reads the whole history at each step."""

    def __init__(self, decoder) -> None:
        super().__init__(decoder.dictionary)
        self.decoder = decoder

    def forward(self, prev_output_tokens, encoder_out):
        return self.decoder(prev_output_tokens, encoder_out=encoder_out)

    def max_positions(self) -> int:
        return self.decoder.max_positions()


@pytest.mark.parametrize(
    "members", ["stock", "without state", "ours + ours", "ours + stock", "convolutional"]
)
def test_foreign_models_and_ensembles(task, members):
    """An ensemble averages probabilities; its members may be of different architectures."""
    own = make_task(SYMBOLS)
    first = make_model(own, seed=1, positions="sinusoidal-fairseq", layer_norm_eps=1e-5)
    with torch.no_grad():
        first.projection_weight.mul_(2.5)
    twin = make_stock_twin(first)
    second = make_peaked_model(SYMBOLS, seed=2)
    stateless = FairseqEncoderDecoderModel(twin.encoder, WithoutState(twin.decoder)).eval()
    models = {"stock": [twin], "ours + ours": [first, second], "ours + stock": [second, twin]}
    models["without state"] = [stateless]
    models = models.get(members) or [make_convolutional(task, 5)]
    options = {"beam": 5, "lenpen": 1.0, "max_len_a": 1.0, "max_len_b": 4}
    sample = make_sample(SOURCES)
    theirs = fairseq_generator(task, models, options).generate(models, sample)
    ours = make_generator(task, models, **options).generate(models, sample)
    assert_equal(ours, theirs)
    if members in ("stock", "without state"):  # its twin of ours says the same
        assert_equal(make_generator(task, [first], **options).generate([first], sample), theirs)
    elif len(models) > 1:
        alone = make_generator(task, models[:1], **options).generate(models[:1], sample)
        assert [outputs_of(h) for h in alone] != [outputs_of(h) for h in ours]


KINDS = ("S-", "T-", "H-", "D-", "P-", "A-")


def printed(text: str) -> list[list[str | float]]:
    """What fairseq-generate prints of sentences, by sentence; numbers as numbers."""
    lines = [line.split() for line in text.splitlines() if line.startswith(KINDS)]
    lines.sort(key=lambda fields: fields[0])
    return [[float(x) if re.fullmatch(r"-?\d+\.\d+", x) else x for x in line] for line in lines]


def test_generate_prints_what_fairseq_prints(run_fairseq, toy_data_bin, stock_checkpoint, tmp_path):
    """fairseq's stock model, by fairseq's task and by ours."""
    common = ("--path", stock_checkpoint, "--cpu", "--beam", 4, "--lenpen", 0.8)
    common += ("--nbest", 3, "--print-alignment", "--prefix-size", 1, "--batch-size", 7)
    common += ("--max-len-a", 1, "--max-len-b", 4, "--results-path", tmp_path)
    outputs = []
    for task in (("translation",), ("vaswani_translation", "--length-penalty", "fairseq")):
        run = run_fairseq("generate", toy_data_bin, "--task", *task, *common)
        assert run.returncode == 0, run.stderr
        outputs.append((tmp_path / "generate-test.txt").read_text(encoding="utf-8"))
    theirs, ours = map(printed, outputs)
    assert len(theirs) == (2 + 4 * 3) * 60  # S and T once, each other kind thrice
    for mine, line in zip(ours, theirs, strict=True):
        assert mine == pytest.approx(line, abs=2e-4)
