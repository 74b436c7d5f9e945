"""Beam search (section 6.1) against enumeration of every output."""

import numpy as np
import pytest
import search_reference
import torch
from recurrent_models import KINDS, make_recurrent
from reference_weights import default_dtype
from search_setup import (
    EOS,
    FIRST_WORD,
    PAD,
    UNK,
    as_function,
    make_generator,
    make_peaked_model,
    make_sample,
    make_translation_task,
    outputs_of,
)

from vaswani_plugin.search.hypotheses import PaperRules
from vaswani_plugin.search.models import Ensemble
from vaswani_plugin.search.search import BeamSearch

# fairseq caps the beam at V - 1: a dictionary of 130 of which three words are ever output
# leaves room for all 3 + 9 + 27 + 81 = 120 outputs of up to 4 words.
SYMBOLS, WIDE = 126, 125
WORDS = [UNK, FIRST_WORD, FIRST_WORD + 1]
LONGEST = 4
ALPHAS = [0.0, 0.6, 1.5, -0.5]
SOURCES = [[9, 30, 7], [11, 5, 5, 80, 33, 9], [64]]
SHORT_SOURCES = [[9, 12, 7], [11, 5, 5, 20, 9], [14]]
FIXED = {"max_len_a": 0, "max_len_b": LONGEST}


@pytest.fixture(scope="module")
def task():
    return make_translation_task(SYMBOLS)


@pytest.fixture(scope="module")
def model():
    return favour_words(make_peaked_model(SYMBOLS))


@pytest.fixture(scope="module")
def functions(model):
    """The model as a function of each source; what it has computed serves all tests."""
    return [as_function([model], source) for source in SOURCES]


@torch.no_grad()
def favour_words(model):
    """Let the words in use and the end share nearly all of the probability."""
    model.projection_weight[[EOS, *WORDS]] *= 3
    return model


@torch.no_grad()
def eager_to_end(model, eagerness):
    """Raise the logit of the end everywhere: by the bias of the last LayerNorm."""
    row = model.projection_weight[EOS]
    model.decoder.layers[-1].feed_forward_norm.norm.bias.add_(eagerness * row / row.norm() ** 2)
    return model


def assert_same(actual, expected):
    """The same tokens in the same order, with the same scores."""
    assert [tokens for tokens, _ in actual] == [tokens for tokens, _ in expected]
    for (_, score), (_, other) in zip(actual, expected, strict=True):
        assert score == pytest.approx(other, abs=1e-5, rel=1e-5)


def search(task, models, sources, words=WORDS, **args):
    return make_generator(task, models, words, **args).generate(models, make_sample(sources))


ENSEMBLES = {"one": ([1], []), "two": ([1, 2], [])}
if KINDS:
    ENSEMBLES["recurrent"] = [], ["input feeding"]
    ENSEMBLES["of several kinds"] = [1], ["seq2seq", "both ways"]
"""Seeds of Transformers, and kinds of recurrent models."""


@pytest.fixture(scope="module", params=ENSEMBLES)
def ensemble(request, task):
    """Models, and each source's function."""
    seeds, kinds = ENSEMBLES[request.param]
    recurrent = [make_recurrent(kind, task, seed=3) for kind in kinds]
    with torch.no_grad():
        for parameter in (p for model in recurrent for p in model.parameters()):
            parameter.mul_(5)  # so that their logits spread
    models = [make_peaked_model(SYMBOLS, seed) for seed in seeds] + recurrent
    models = [favour_words(model) for model in models]
    return models, [as_function(models, source) for source in SOURCES]


@pytest.mark.parametrize("alpha", ALPHAS)
def test_wide_beam_is_enumeration(task, ensemble, alpha):
    """Every output found, by the paper's score; of scores that rounding parts, either is first."""
    models, functions = ensemble
    found = search(task, models, SOURCES, beam=WIDE, lenpen=alpha, **FIXED)
    for function, hypotheses in zip(functions, found, strict=True):
        expected = search_reference.enumerate_outputs(function, WORDS, EOS, LONGEST, alpha)
        actual = outputs_of(hypotheses)
        assert len(actual) == len(expected) == 120
        by_tokens = {output.tokens: output for output in expected}
        for hypothesis, (tokens, score), ranked in zip(hypotheses, actual, expected, strict=True):
            assert score == pytest.approx(ranked.score, abs=1e-4)
            output = by_tokens.pop(tokens)
            assert score == pytest.approx(output.score, abs=1e-4)
            total = hypothesis["positional_scores"].sum().item()
            assert total == pytest.approx(output.log_probability, abs=1e-4)
            assert len(hypothesis["positional_scores"]) == len(output.tokens)


@pytest.mark.parametrize("eagerness", [0.0, 10.0])
def test_beam_of_1_is_greedy(task, eagerness):
    """Whatever the penalty."""
    words = [token for token in range(SYMBOLS + 4) if token not in (PAD, EOS)]
    ended_early = []
    for seed in range(4):
        model = eager_to_end(make_peaked_model(SYMBOLS, seed), eagerness)
        limits = [len(source) + 1 + 6 for source in SOURCES]
        expected = [
            search_reference.greedy(as_function([model], source), words, EOS, limit)
            for source, limit in zip(SOURCES, limits, strict=True)
        ]
        ended_early += [len(e) <= limit for e, limit in zip(expected, limits, strict=True)]
        for alpha in ALPHAS:
            args = {"beam": 1, "lenpen": alpha, "max_len_a": 1, "max_len_b": 6}
            found = search(task, [model], SOURCES, None, **args)
            assert [tuple(best["tokens"].tolist()) for (best,) in found] == expected
    assert any(ended_early) == (eagerness > 0)


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("left_pad", [False, True])
def test_a_batch_gives_what_each_sentence_alone_gives(task, beam, left_pad):
    """With a limit that depends on the length of the source: its own, not the batch's."""
    for seed in range(0, 4, 3):
        model = eager_to_end(make_peaked_model(SYMBOLS, seed), 4.0 * seed)
        generator = make_generator(task, [model], **{"beam": beam, "max_len_a": 1, "max_len_b": 2})
        together = generator.generate([model], make_sample(SOURCES, left_pad))
        for source, hypotheses in zip(SOURCES, together, strict=True):
            (alone,) = generator.generate([model], make_sample([source]))
            assert_same(outputs_of(hypotheses), outputs_of(alone))


def test_double_precision_scores_are_those_of_forced_decoding():
    """Every hypothesis of every way to search, to 1e-6, its parts summing to it."""
    torch.manual_seed(2)
    task = make_translation_task(20)
    with default_dtype(torch.float64):
        model = eager_to_end(make_peaked_model(20), 5.0)
    functions = [as_function([model], source) for source in SHORT_SOURCES]
    for more in ({}, {"diverse_beam_groups": 2}, {"sampling": True}):
        found = search(task, [model], SHORT_SOURCES, None, beam=4, lenpen=0.6, max_len_b=8, **more)
        for function, hypotheses in zip(functions, found, strict=True):
            assert len(hypotheses) == 4
            for hypothesis, (tokens, score) in zip(hypotheses, outputs_of(hypotheses), strict=True):
                log_p = search_reference.log_probability(function, tokens)
                expected = log_p / search_reference.gnmt_penalty(len(tokens), 0.6)
                assert score == pytest.approx(expected, rel=1e-6)
                total = hypothesis["positional_scores"].sum().item()
                assert total == pytest.approx(log_p, rel=1e-6)


@pytest.fixture(scope="module")
def eager_models():
    """Models that end late to early, and their functions of each short source."""
    settings = ((1.0, 3.0), (2.5, 8.0), (4.0, 14.0), (4.0, 17.0))
    models = [
        eager_to_end(make_peaked_model(20, seed % 2, peak), eagerness)
        for seed, (peak, eagerness) in enumerate(settings)
    ]
    return [(model, [as_function([model], source) for source in SHORT_SOURCES]) for model in models]


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(("beam", "more"), [(2, {}), (4, {}), (4, {"unkpen": -12.0})])
def test_narrow_beam_is_the_plain_search(eager_models, alpha, beam, more):
    """Hypothesis for hypothesis; later ends displace earlier ones, and the list gets full."""
    task = make_translation_task(20)
    words = [token for token in range(24) if token not in (PAD, EOS)]
    gain = np.eye(24)[UNK] * -more.get("unkpen", 0.0)
    for model, functions in eager_models:
        args = {"beam": beam, "lenpen": alpha, "max_len_b": 5}
        found = search(task, [model], SHORT_SOURCES, None, **args, **more)
        for source, function, hypotheses in zip(SHORT_SOURCES, functions, found, strict=True):
            limit, function = len(source) + 1 + 5, lambda x, f=function: np.add(f(x), gain)
            expected = search_reference.beam_search(function, words, EOS, beam, limit, alpha)
            assert len(hypotheses) == beam
            assert_same(outputs_of(hypotheses), [(o.tokens, o.score) for o in expected])


def test_the_bound_is_the_likeliest_hypothesis_of_a_diverse_group(monkeypatch):
    """A group chooses by a lowered log P: its likeliest hypothesis need not be its first."""
    task, compared, unlike_first = make_translation_task(20), 0, 0
    extend, latest = BeamSearch._extend_beams, []

    def extend_and_note(self, *args):
        extend(self, *args)
        latest[:] = [self.log_p.unflatten(1, (self.groups, -1))]  # (B, G, w)

    class Compared(PaperRules):
        def done(self, kept, best_open, *args):
            nonlocal compared, unlike_first
            (log_p,) = latest
            assert best_open.tolist() == log_p.max(dim=2).values.flatten().tolist()
            compared += 1
            unlike_first += bool(log_p[..., 0].flatten().ne(best_open).any())
            return super().done(kept, best_open, *args)

    monkeypatch.setattr(BeamSearch, "_extend_beams", extend_and_note)
    model = eager_to_end(make_peaked_model(20, peak=1.0), 2.0)
    options = {"beam": 6, "diverse_beam_groups": 2, "diverse_beam_strength": 3.0}
    few = [FIRST_WORD, FIRST_WORD + 1]  # so that a group takes what others took, too
    generator = make_generator(task, [model], few, max_len_b=12, **options)
    generator.rules = Compared(0.6)
    generator.generate([model], make_sample(SHORT_SOURCES))
    assert compared > unlike_first > 0


def test_after_a_prefix_the_search_is_enumeration(task, model, functions):
    prefixes = [(WORDS[1], WORDS[0]), (WORDS[2], WORDS[2]), (WORDS[0], WORDS[1])]
    generator = make_generator(task, [model], WORDS, beam=WIDE, lenpen=0.6, **FIXED)
    found = generator.generate([model], make_sample(SOURCES), prefix_tokens=torch.tensor(prefixes))
    for function, prefix, hypotheses in zip(functions, prefixes, found, strict=True):
        outputs = search_reference.enumerate_outputs(function, WORDS, EOS, LONGEST, 0.6)
        expected = [output for output in outputs if output.tokens[:2] == prefix]
        assert [tokens for tokens, _ in outputs_of(hypotheses)] == [o.tokens for o in expected]
        for (_, score), output in zip(outputs_of(hypotheses), expected, strict=True):
            assert score == pytest.approx(output.score, abs=1e-4)


@pytest.mark.parametrize("beam", [1, 4])
def test_prefixes_of_different_lengths_are_respected(task, model, beam):
    """The second one is longer than its sentence's limit of 1 x 2 + 1 words."""
    prefixes = [[50], [6, 7, 8, 9, 10], []]
    padded = torch.tensor([prefix + [PAD] * (5 - len(prefix)) for prefix in prefixes])
    generator = make_generator(task, [model], beam=beam, max_len_a=1, max_len_b=1)
    sources = [[9, 30, 7, 11, 5, 5], [64], [30, 7]]
    found = generator.generate([model], make_sample(sources), prefix_tokens=padded)
    for prefix, hypotheses in zip(prefixes, found, strict=True):
        assert len(hypotheses) > 0
        for tokens, _ in outputs_of(hypotheses):
            assert list(tokens[: len(prefix)]) == prefix and tokens[-1] == EOS


def test_finished_sentences_leave_the_batch(task, monkeypatch):
    sizes, step = [], Ensemble.step

    def counted(self, tokens, parents):
        sizes.append(len(tokens))
        return step(self, tokens, parents)

    monkeypatch.setattr(Ensemble, "step", counted)
    sources = [[9], [5, 20, 7, 12, 40, 8, 30, 6, 11, 50]]
    search(task, [make_peaked_model(SYMBOLS)], sources, beam=2, max_len_a=1, max_len_b=0)
    assert sizes[0] == 2 and sizes[-1] == 1


def test_models_in_training_search_without_dropout(task):
    in_training = make_peaked_model(SYMBOLS, dropout=0.5).train()
    expected = search(task, [make_peaked_model(SYMBOLS).eval()], SOURCES)
    for found, other in zip(search(task, [in_training], SOURCES), expected, strict=True):
        assert_same(outputs_of(found), outputs_of(other))
