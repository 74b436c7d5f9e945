"""Options of a search: what it gets, and what can't be decoded, in one line with the remedy."""

import pytest
import torch
from model_factory import make_dictionary, make_task
from search_setup import EOS, make_generator, make_peaked_model, make_sample, make_translation_task

from vaswani_plugin.errors import UserError
from vaswani_plugin.search.options import Options, SearchOptions

SYMBOLS = 12
OF_TOP_K = {"beam": 3, "nbest": 3, "sampling": True, "sampling_topk": 5, "temperature": 2.0}
OF_TOP_P = {"beam": 1, "sampling": True, "sampling_topp": 0.5}


@pytest.fixture
def task():
    return make_translation_task(SYMBOLS)


@pytest.fixture
def model():
    return make_peaked_model(SYMBOLS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "temperature is 0.0; it must be from 0.0001"),
        ({"sampling": True, "sampling_topp": 0.0}, "sampling_topp is 0.0; it must be above 0"),
        ({"lenpen": 1000.0}, "lenpen is 1000.0; it must be from -10 to 10"),
        ({"beam": 0}, "beam is 0; it must be at least 1"),
        ({"min_len": 8, "max_len_a": 0, "max_len_b": 2}, "--min-len 8 is above --max-len-b 2"),
        ({"sampling_topk": 3}, "top-k and top-p go with sampling"),
        ({"sampling": True, "sampling_topk": 3, "sampling_topp": 0.5}, "top-k or top-p.*drop one"),
        ({"sampling": True, "diverse_beam_groups": 1}, "and no diverse groups; drop one"),
        ({"beam": 5, "diverse_beam_groups": 2}, "--beam 5 .*groups 2; make it a multiple"),
    ],
    ids=str,
)
def test_impossible_flags(task, model, options, message):
    with pytest.raises(UserError, match=message):
        make_generator(task, [model], **options)


@pytest.mark.parametrize(
    ("part", "given"),
    [
        ("top-k and top-p go with sampling", {"top_k": 3}),
        ("beam and sampling exclude", {"beam": 2, "sampling": True}),
    ],
    ids=str,
)
def test_impossible_keywords(part, given):
    with pytest.raises(UserError, match=part):
        Options(**given).search(4, 0.6)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (Options(nbest=2, no_repeat_ngram=3), {"beam": 7, "nbest": 2, "no_repeat_ngram_size": 3}),
        (Options(beam=3, length_penalty=0.0), {"beam": 3, "lenpen": 0.0}),
        (Options(sampling=True, nbest=3, top_k=5, temperature=2.0), OF_TOP_K),
        (Options(sampling=True, top_p=0.5, seed=3), OF_TOP_P),
    ],
    ids=repr,
)
def test_what_a_search_gets(options, expected):
    wanted = SearchOptions(**{"nbest": 1, "lenpen": 0.3, "min_len": 2, **expected})
    assert options.search(7, 0.3, min_len=2) == wanted


def test_a_beam_wider_than_the_dictionary_is_cut_as_fairseq_does(task, model):
    made = (make_generator(task, [model], beam=width) for width in (15, 99))
    found = [generator.generate([model], make_sample([[5, 6]]))[0] for generator in made]
    first, second = ([h["tokens"].tolist() for h in hypotheses] for hypotheses in found)
    assert first == second and len(first) == 15


def test_samples_may_be_more_than_the_dictionary_has_symbols(task, model):
    generator = make_generator(task, [model], beam=40, nbest=40, sampling=True, max_len_b=2)
    (found,) = generator.generate([model], make_sample([[5, 6]]))
    assert len(found) == 40


def test_words_that_are_added_later_change_nothing(task, model):
    """As fairseq-generate --remove-bpe adds those of its references to the dictionary."""
    generator = make_generator(task, [model])
    (before,) = generator.generate([model], make_sample([[5, 6]]))
    task.target_dictionary.add_symbol("afterwards")
    (after,) = generator.generate([model], make_sample([[5, 6]]))
    assert [h["tokens"].tolist() for h in after] == [h["tokens"].tolist() for h in before]


def test_a_source_that_fills_the_positions(task, model):
    """63 words and the end; the output is held to the positions of the target."""
    with torch.no_grad():
        model.projection_weight[EOS] = 0
    (found,) = make_generator(task, [model]).generate([model], make_sample([[5] * 63]))
    assert max(len(h["tokens"]) for h in found) == 64


def test_nothing_is_translated_by_nothing(task, model):
    """As an empty line in fairseq-interactive; the sentence beside it is not changed."""
    for options in ({}, {"sampling": True, "beam": 1}, {"print_alignment": "hard"}):
        generator = make_generator(task, [model], **options)
        nothing, found = generator.generate([model], make_sample([[], [5, 6]]))
        assert [h["tokens"].tolist() for h in nothing] == [[EOS]] and len(found[0]["tokens"]) > 1
        assert (float(nothing[0]["score"]), len(nothing[0]["positional_scores"])) == (0.0, 1)


def test_a_prefix_that_leaves_no_position_for_the_end(task, model):
    generator = make_generator(task, [model])
    for length, refused in ((63, False), (64, True)):
        given = make_sample([[5, 6]]), torch.full((1, length), 5)
        if refused:
            with pytest.raises(UserError, match="a prefix of 64 tokens: .* give at most 63"):
                generator.generate([model], given[0], prefix_tokens=given[1])
        else:
            (found,) = generator.generate([model], given[0], prefix_tokens=given[1])
            assert len(found[0]["tokens"]) == 64


NEVER_THE_END = {"prefix_allowed_tokens_fn": lambda sentence, tokens: [5, 6], "max_len_b": 5}
LONGER_THAN_THE_LIMIT = {"max_len_a": 0.1, "max_len_b": 3, "min_len": 4}


@pytest.mark.parametrize("more", [{}, {"sampling": True, "sampling_topk": 2}], ids=str)
@pytest.mark.parametrize("given", [NEVER_THE_END, LONGER_THAN_THE_LIMIT], ids=["never", "longer"])
def test_constraints_that_leave_no_output(task, model, given, more):
    """A sentence may not end, so at its limit nothing is allowed."""
    generator = make_generator(task, [model], **{**given, **more})
    with pytest.raises(ValueError, match="no output of a sentence meets all constraints"):
        generator.generate([model], make_sample([[5], [6, 7]]))


def test_ensemble_with_different_dictionaries(task, model):
    other = make_dictionary(SYMBOLS, prefix="other")
    foreign = make_peaked_model(SYMBOLS)
    foreign.decoder.dictionary = other
    with pytest.raises(ValueError, match="model 2 of 2 has another target dictionary"):
        make_generator(task, [model, foreign])


def test_model_and_dictionary_of_different_sizes(task):
    model = make_peaked_model(SYMBOLS + 3)
    model.decoder.dictionary = make_task(SYMBOLS).target_dictionary
    with pytest.raises(ValueError, match="knows 19 tokens and the target dictionary 16"):
        make_generator(task, [model]).generate([model], make_sample([[5]]))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("options", [{}, {"sampling": True}], ids=str)
def test_broken_weights(task, model, value, options):
    with torch.no_grad():
        model.decoder.layers[1].feed_forward.w_2.bias[3] = value
    with pytest.raises(ValueError, match="not numbers .NaN.: its weights are broken"):
        make_generator(task, [model], **options).generate([model], make_sample([[5], [6, 7]]))
